/** Changes the data of the game's own server, and repeats a change only if that cannot make it twice. */
import { systemClock } from '../contracts/clock.js'
import { errorCodes, FleetError, messageOf } from '../contracts/errors.js'
import type { ServerData, ServerDataUpdate } from '../rules/model/server-data.js'
import { AgentError, type AgentClient } from './agent-client.js'
import { after } from './timers.js'

/** How long a change is repeated while no host can make it. */
const repeatMs = 15_000
const pauseMs = 500

/** Rejects with a FleetError: see `Gsdk.updateData`. */
export async function updateData(
  client: Pick<AgentClient, 'updateData' | 'name'>,
  change: ServerDataUpdate,
): Promise<ServerData> {
  const since = systemClock.elapsed()
  for (;;) {
    try {
      const data: ServerData = JSON.parse(await client.updateData(change))
      return data
    } catch (error) {
      const failure = failureOf(error, client.name)
      const mayRepeat = isUnmade(error) || (failure.code === 'unavailable' && !isRelative(change))
      if (!mayRepeat || systemClock.elapsed() - since > repeatMs) throw failure
      await new Promise<void>((resolve) => void after(pauseMs, resolve))
    }
  }
}

/** True if the change counts again when it is made again. To add to a list what it has already changes nothing. */
function isRelative({ counters = {} }: ServerDataUpdate): boolean {
  return Object.values(counters).some((counter) => 'increment' in counter || 'decrement' in counter)
}

/** True if no host has made the change. */
function isUnmade(error: unknown): boolean {
  if (error instanceof AgentError) return error.code === 'not-leader' || error.code === 'rate-limited'
  return error instanceof Error && 'code' in error && error.code === 'ECONNREFUSED'
}

function failureOf(error: unknown, agent: string): FleetError {
  const named = error instanceof AgentError ? errorCodes.find((code) => code === error.code) : undefined
  if (error instanceof AgentError && named) return new FleetError(named, error.reason ?? error.message)
  const message = `the agent at ${agent} did not confirm the change: ${messageOf(error)}`
  return new FleetError('unavailable', message, { cause: error })
}
