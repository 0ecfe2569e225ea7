/** Reads what a game was started with, and checks the numbers that a backend gives to the servers of one machine. */
import { expect } from 'vitest'
import type { Backend, InstanceSpec } from '../../src/contracts/backend.js'
import type { Ref } from '../../src/rules/model/resources.js'
import { until } from '../e2e/until.js'

export interface StartedGame {
  readonly environment: Readonly<Record<string, string>>
  /** The content of its SDK configuration file. */
  readonly config: Readonly<Record<string, unknown>>
  /** The variables that name a folder in which the game can create files. */
  readonly folders: readonly string[]
}

/** Waits until the game, started by `gsdkGame`, has printed its configuration. */
export async function startedGame(backend: Backend, ref: Ref): Promise<StartedGame> {
  // Containers and pods have no log before they run.
  await until(`${ref.name} runs`, async () => {
    const instance = (await backend.list()).find((one) => one.ref.name === ref.name)
    return instance !== undefined && instance.phase !== 'pending'
  })
  for await (const line of backend.logs?.(ref, { follow: true }) ?? []) {
    if (line.startsWith('{"event":"started"')) return JSON.parse(line)
  }
  throw new Error(`${ref.name} has ended without printing its configuration`)
}

async function numberOf(backend: Backend, { ref }: InstanceSpec): Promise<number> {
  const { environment, config } = await startedGame(backend, ref)
  expect(environment['PF_SERVER_INSTANCE_NUMBER']).toBe(String(config['serverInstanceNumber']))
  return Number(config['serverInstanceNumber'])
}

/** `specs` are four servers for the same machine. `reopen` closes the backend and opens it as the next host. */
export async function checkInstanceNumbers(
  backend: Backend,
  specs: readonly [InstanceSpec, InstanceSpec, InstanceSpec, InstanceSpec],
  reopen: () => Promise<Backend>,
): Promise<void> {
  const [first, second, third, fourth] = specs
  await Promise.all([backend.create(first), backend.create(second)])
  const numbers = [await numberOf(backend, first), await numberOf(backend, second)]
  expect(numbers.toSorted((a, b) => a - b)).toEqual([0, 1])

  const lowest = numbers[0] === 0 ? first : second
  await backend.destroy(lowest.ref, lowest.uid, { graceMs: 0 })
  await backend.create(third)
  expect(await numberOf(backend, third)).toBe(0)

  const next = await reopen()
  await next.create(fourth)
  expect(await numberOf(next, fourth)).toBe(2)
}
