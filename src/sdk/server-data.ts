/** Changes the data of the game's own server, or takes it for a session. Repeats a request only if that cannot carry it out twice. */
import { systemClock } from '../contracts/clock.js'
import { errorCodes, FleetError, messageOf } from '../contracts/errors.js'
import type { OwnAllocation } from '../contracts/sessions.js'
import type { OwnAllocationRequest } from '../rules/model/allocation.js'
import type { ServerData, ServerDataUpdate } from '../rules/model/server-data.js'
import { AgentError, type AgentClient } from './agent-client.js'
import { after } from './timers.js'
import { isError } from '../rules/model/realms.js'

/** The session for which a game takes its own server. `sessionID` has 1 to 128 visible characters. Default: one that the fleet makes. */
export type OwnSession = Pick<OwnAllocationRequest, 'sessionID' | 'sessionCookie' | 'initialPlayers'>

/** How long a change is repeated while no host can make it. */
const repeatMs = 15_000
const pauseMs = 500

/** Rejects with a FleetError: see `Gsdk.updateData`. */
export async function updateData(
  client: Pick<AgentClient, 'updateData' | 'name'>,
  change: ServerDataUpdate,
): Promise<ServerData> {
  return repeated<ServerData>(client.name, () => client.updateData(change), !isRelative(change))
}

/** Rejects with a FleetError: see `Gsdk.allocateSelf`. A repeated request finds the session. */
export async function allocateSelf(
  client: Pick<AgentClient, 'allocateSelf' | 'name'>,
  request: OwnAllocationRequest,
): Promise<string> {
  const { sessionID } = await repeated<OwnAllocation>(client.name, () => client.allocateSelf(request), true)
  return sessionID
}

/** `isRepeatable`: a request that has been carried out may be sent again. */
async function repeated<T>(agent: string, send: () => Promise<string>, isRepeatable: boolean): Promise<T> {
  const since = systemClock.elapsed()
  for (;;) {
    try {
      const answer: T = JSON.parse(await send())
      return answer
    } catch (error) {
      const failure = failureOf(error, agent)
      const mayRepeat = isUnmade(error) || (failure.code === 'unavailable' && isRepeatable)
      if (!mayRepeat || systemClock.elapsed() - since > repeatMs) throw failure
      await new Promise<void>((resolve) => void after(pauseMs, resolve))
    }
  }
}

/** True if the change counts again when it is made again. To add to a list what it has already changes nothing. */
function isRelative({ counters = {} }: ServerDataUpdate): boolean {
  return Object.values(counters).some((counter) => 'increment' in counter || 'decrement' in counter)
}

/** True if no host has carried it out, and one may soon: the backend may not have reported the address of the server yet. */
function isUnmade(error: unknown): boolean {
  const codes = ['not-leader', 'rate-limited', 'none-standing-by']
  if (error instanceof AgentError) return error.code !== undefined && codes.includes(error.code)
  return isError(error) && 'code' in error && error.code === 'ECONNREFUSED'
}

function failureOf(error: unknown, agent: string): FleetError {
  const named = error instanceof AgentError ? errorCodes.find((code) => code === error.code) : undefined
  if (error instanceof AgentError && named) return new FleetError(named, error.reason ?? error.message)
  const message = `the agent at ${agent} did not confirm the request: ${messageOf(error)}`
  return new FleetError('unavailable', message, { cause: error })
}
