/** A real fleet over the memory backend, and the bodies that tests send. */
import { memoryBackend, type MemoryBackendOptions } from '../../adapters/memory/index.js'
import { createFleet, systemClock } from '../../src/index.js'
import type { Fleet } from '../../src/contracts/fleet.js'
import { until } from './client.js'

export const buildID = '85ffe8da-c82f-4035-86c5-9d2b5f42d6f6'
export const sessionID = 'd3b07384-d9a0-4d5b-8f3c-1f1c3f0e9a11'

export const build = (spec: object = {}, name = 'arena') => ({
  metadata: { name },
  spec: {
    buildID,
    standingBy: 2,
    max: 3,
    portsToExpose: [7_777],
    template: { spec: { containers: [{ name: 'game', command: ['game'] }] } },
    ...spec,
  },
})

/** Its servers live in this process and send heartbeats by the real clock, often: a heartbeat's answer ends them. */
export function memoryFleet(options: MemoryBackendOptions = {}): Promise<Fleet> {
  return createFleet({ backend: memoryBackend({ clock: systemClock, heartbeatIntervalMs: 25, ...options }) })
}

/** Resolves when this many servers of the build are standing by. */
export function standingBy(fleet: Fleet, count: number, name = 'arena'): Promise<void> {
  return until(async () => (await fleet.builds.get(name)).status.currentStandingBy === count)
}

/** Resolves once the last server of any deleted build is removed. */
export function noServers(fleet: Fleet): Promise<void> {
  return until(async () => (await fleet.servers.list()).length === 0)
}

/** A fleet whose calls all do the same; `logs` yields nothing. */
export function fleetOf(call: () => Promise<never>) {
  const both = { get: call, list: call, page: call, drain: call, delete: call }
  return {
    builds: { ...both, create: call, apply: call, patch: call, update: call, resume: call, demand: call },
    servers: {
      ...both,
      update: call,
      announceMaintenance: call,
      withdrawMaintenance: call,
      reserve: call,
      release: call,
      usage: call,
      writeStdin: call,
      logs: noLines,
    },
    details: { get: call, ofBuild: call },
  }
}

/** An empty log. */
export async function* noLines(): AsyncGenerator<string> {}
