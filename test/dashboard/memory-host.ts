/** A fleet whose servers live in the test's process, with its dashboard: for tests of what the page does, not of what servers do. */
import type { AddressInfo } from 'node:net'
import type { Server } from 'node:http'
import { onTestFinished } from 'vitest'
import { type MemoryBackend, memoryBackend, type ServerScript } from '../../adapters/memory/index.js'
import { dashboardPage } from '../../src/dashboard/index.js'
import { serve, type ServeOptions } from '../../src/http/index.js'
import { createFleet, systemClock } from '../../src/index.js'
import type { Fleet } from '../../src/contracts/fleet.js'

export interface MemoryHost {
  readonly fleet: Fleet
  readonly backend: MemoryBackend
  readonly url: string
}

/** `faults`: methods of the backend that do something else. */
export async function memoryHost(
  options: Partial<ServeOptions> = {},
  script: ServerScript = {},
  faults: Partial<MemoryBackend> = {},
): Promise<MemoryHost> {
  const backend = memoryBackend({ clock: systemClock, heartbeatIntervalMs: 25, script: () => script })
  const fleet = await createFleet({ backend: { ...backend, ...faults }, logger: false })
  onTestFinished(() => fleet.close())
  const ports = { allocation: { port: 0 }, management: { port: 0 } }
  const served = await serve({ fleet, ...ports, logger: false, dashboard: dashboardPage(), ...options })
  onTestFinished(() => served.close())
  return { fleet, backend, url: served.managementUrl }
}

/** Its address, once it listens. Closes it at the end of the test. */
export async function listening(server: Server): Promise<string> {
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  if (!server.listening) await new Promise((resolve) => server.once('listening', resolve))
  const address = server.address() as AddressInfo
  return `http://127.0.0.1:${address.port}`
}

/** Holds calls until `release`. `held` resolves once one waits. */
export function gate() {
  let release = () => {}
  let isHeld = () => {}
  const released = new Promise<void>((resolve) => (release = resolve))
  const held = new Promise<void>((resolve) => (isHeld = resolve))
  const pass = async () => {
    isHeld()
    await released
  }
  return { release: () => release(), held, pass }
}
