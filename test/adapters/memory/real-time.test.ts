/** The memory backend without a clock of a test: it goes on in real time, and leaves nothing behind that keeps a process running. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { createFleet, type FleetEvent, systemClock } from 'gamekeeper'
import { memoryBackend, type MemoryBackend, type MemoryBackendOptions } from 'gamekeeper/memory'
import { describe, expect, it, onTestFinished } from 'vitest'
import { root } from '../../package/sources.js'

const patient = { timeout: 60_000 }
const spec = { buildID: 'arena-1', standingBy: 1, max: 2, run: { ports: [{ name: 'game', port: 7777 }] } }

async function opened(options: MemoryBackendOptions) {
  const inner = memoryBackend({ heartbeatIntervalMs: 20, ...options })
  const beats = { count: 0 }
  const backend: MemoryBackend = {
    ...inner,
    watch: (listener) =>
      inner.watch({
        changed: (instance) => listener.changed(instance),
        gone: (ref, uid) => listener.gone(ref, uid),
        resync: () => listener.resync(),
        heartbeat(id, heartbeat) {
          beats.count++
          return listener.heartbeat(id, heartbeat)
        },
        parkHeartbeat: (id, parked) => listener.parkHeartbeat?.(id, parked),
      }),
  }
  const fleet = await createFleet({ backend })
  onTestFinished(() => fleet.close())
  const events: FleetEvent[] = []
  fleet.on('*', (event) => void events.push(event))
  await fleet.builds.create({ metadata: { name: 'arena' }, spec })
  return { backend, fleet, events, beats }
}

describe.each<[string, MemoryBackendOptions]>([
  ['without a clock', {}],
  ['on the system clock', { clock: systemClock }],
])('a memory backend %s', (_, options) => {
  it('sends heartbeats at regular intervals, to each fleet that runs on it', async () => {
    const { backend, fleet, beats } = await opened(options)
    await expect.poll(() => beats.count, patient).toBeGreaterThan(10)
    await fleet.close()
    beats.count = 0
    const next = await createFleet({ backend })
    onTestFinished(() => next.close())
    await next.builds.create({ metadata: { name: 'arena' }, spec })
    await expect.poll(() => beats.count, patient).toBeGreaterThan(10)
  })

  it('runs a session from its allocation to its end, and replaces the server', async () => {
    const { backend, fleet, events } = await opened(options)
    const server = await fleet.allocate({ buildID: 'arena-1', sessionID: 'a' }, { waitMs: 10_000, confirm: true })
    expect(server.port('game')).toBeGreaterThan(0)
    backend.server(server.server).exit(0)
    await expect.poll(() => events.some(({ type }) => type === 'ServerEnding'), patient).toBe(true)
    const next = await fleet.allocate({ buildID: 'arena-1', sessionID: 'b' }, { waitMs: 10_000, confirm: true })
    expect(next.server).not.toEqual(server.server)
    await fleet.sessions.end('b')
    await expect
      .poll(() => backend.servers().some(({ spec: { ref } }) => ref.name === next.server.name), patient)
      .toBe(false)
    expect(events.filter((event) => event.type === 'ServerEnding' && event.crash)).toEqual([])
  })

  it('lets the process exit by itself once the fleet is closed, with servers running', async () => {
    const clock = options.clock === undefined ? '' : 'clock: systemClock'
    const script = `
      import { createFleet, systemClock } from './dist/src/index.js'
      import { memoryBackend } from './dist/adapters/memory/index.js'
      const fleet = await createFleet({ backend: memoryBackend({ ${clock} }) })
      await fleet.builds.create({ metadata: { name: 'arena' }, spec: ${JSON.stringify({ ...spec, standingBy: 2 })} })
      const server = await fleet.allocate({ buildID: 'arena-1', sessionID: 'a' }, { waitMs: 10_000, confirm: true })
      await fleet.close()
      console.log('closed', typeof server.port('game'))`
    const host = spawn(process.execPath, ['--input-type=module', '-e', script], { cwd: root, stdio: 'pipe' })
    onTestFinished(() => void host.kill('SIGKILL'))
    const printed = Promise.all([text(host.stdout), text(host.stderr)])
    const [code] = await once(host, 'exit')
    expect([code, ...(await printed)]).toEqual([0, 'closed number\n', ''])
  })
})
