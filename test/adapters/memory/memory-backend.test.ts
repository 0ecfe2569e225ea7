import { type BackendListener, FleetError, type HeartbeatAnswer, type Instance, type InstanceSpec } from 'gamekeeper'
import { memoryBackend, type MemoryBackend } from 'gamekeeper/memory'
import { virtualClock } from 'gamekeeper/testing'
import { describe, expect, it } from 'vitest'

const continueReply: HeartbeatAnswer = { operation: 'Continue', nextHeartbeatIntervalMs: 1_000 }
const session = { sessionId: '7d3c0b1e-5a43-4d2b-9a5e-111111111111', initialPlayers: ['amie'], metadata: {} }
const active: HeartbeatAnswer = { operation: 'Active', nextHeartbeatIntervalMs: 1_000, sessionConfig: session }

function specOf(name: string, spec: Partial<InstanceSpec> = {}): InstanceSpec {
  return {
    ref: { namespace: 'default', name },
    uid: `uid-of-${name}`,
    build: { namespace: 'default', name: 'arena', uid: 'build-uid', buildID: 'arena-1' },
    template: { spec: { containers: [{ name: 'game' }] } },
    portsToExpose: [7777],
    sdk: { heartbeatEndpoint: '', sessionHostId: `${name}.secret`, buildMetadata: {} },
    ...spec,
  }
}

/** Acts as the fleet: records notifications and heartbeats, and replies to heartbeats with `answer`. */
function listen(backend: MemoryBackend) {
  const reports: string[] = []
  const fleet = { reports, answer: continueReply, stop: () => {} }
  const listener: BackendListener = {
    changed: ({ ref, phase, exitCode }: Instance) =>
      void reports.push(`${ref.name} ${phase}${exitCode === undefined ? '' : ` ${exitCode}`}`),
    gone: (ref) => void reports.push(`${ref.name} gone`),
    resync: () => void reports.push('resync'),
    heartbeat: (sessionHostId, { state, health, players }) => {
      reports.push(`${sessionHostId} reports ${[state, health, ...players].join(' ')}`)
      return fleet.answer
    },
  }
  fleet.stop = backend.watch(listener)
  return fleet
}

const promises = () => new Promise<void>((resolve) => setImmediate(resolve))

describe('a server of the memory backend', () => {
  it('runs and becomes ready at once, and sends notifications only after create has returned', async () => {
    const backend = memoryBackend()
    const { reports } = listen(backend)
    const creating = backend.create(specOf('a'))
    expect(reports).toEqual([])
    expect(await creating).toMatchObject({ phase: 'running', address: '127.0.0.1', node: 'memory' })
    await promises()
    expect(reports).toEqual(['a running', 'a.secret reports StandingBy Healthy'])
  })

  it('without a clock, receives its session when the test reads it', async () => {
    const backend = memoryBackend()
    const fleet = listen(backend)
    await backend.create(specOf('a'))
    await promises()
    const server = backend.server('a')
    expect([server.state, server.session]).toEqual(['StandingBy', undefined])
    fleet.answer = active
    expect(await server.allocated).toEqual(session)
    fleet.answer = { ...continueReply, sessionConfig: session }
    expect([server.state, server.session]).toEqual(['Active', session])
    await promises()
    expect(fleet.reports.at(-1)).toBe('a.secret reports Active Healthy')
  })

  it('resolves `allocated` even if it was read before the allocation', async () => {
    const clock = virtualClock()
    const backend = memoryBackend({ clock })
    const fleet = listen(backend)
    await backend.create(specOf('a'))
    const { allocated } = backend.server('a')
    await clock.advance(1_000)
    fleet.answer = active
    await clock.advance(1_000)
    expect(await allocated).toEqual(session)
  })

  it('rejects `allocated` with the reason when it ends without a session', async () => {
    const backend = memoryBackend()
    await backend.create(specOf('a'))
    const server = backend.server('a')
    const before = server.allocated
    server.exit(3)
    await expect(before).rejects.toMatchObject({
      code: 'closed',
      message: 'server default/a has ended: exited with code 3',
    })
    await expect(server.allocated).rejects.toMatchObject({ code: 'closed' })
  })

  it('with a manual script, sends no heartbeat until the test triggers one', async () => {
    const clock = virtualClock()
    const backend = memoryBackend({ clock, script: 'manual' })
    const { reports } = listen(backend)
    await backend.create(specOf('a'))
    await clock.advance(60_000)
    expect(reports).toEqual(['a running'])
    const server = backend.server('a')
    expect(server.heartbeat()).toEqual(continueReply)
    expect(server.ready()).toEqual(continueReply)
    expect(server.players(['amie', 'bo'])).toEqual(continueReply)
    expect(reports.slice(1)).toEqual([
      'a.secret reports Initializing Healthy',
      'a.secret reports StandingBy Healthy',
      'a.secret reports StandingBy Healthy amie bo',
    ])
  })

  it('repeats its last heartbeat every second until silenced', async () => {
    const clock = virtualClock()
    const backend = memoryBackend({ clock, script: 'manual' })
    const { reports } = listen(backend)
    await backend.create(specOf('a'))
    const server = backend.server('a')
    server.ready()
    server.players(['amie'])
    server.unhealthy()
    reports.length = 0
    await clock.advance(3_500)
    expect(reports).toEqual(Array.from({ length: 3 }, () => 'a.secret reports StandingBy Unhealthy amie'))
    server.silence()
    await clock.advance(60_000)
    expect(reports).toHaveLength(3)
    server.heartbeat({ health: 'Healthy' })
    await clock.advance(1_000)
    expect(reports.slice(3)).toEqual(Array.from({ length: 2 }, () => 'a.secret reports StandingBy Healthy amie'))
  })

  it('sends heartbeats at the interval set by the reply or the option, or never', async () => {
    const beatsIn = async (ms: number, heartbeatIntervalMs?: number) => {
      const clock = virtualClock()
      const backend = memoryBackend({ clock, ...(heartbeatIntervalMs !== undefined && { heartbeatIntervalMs }) })
      const fleet = listen(backend)
      fleet.answer = { operation: 'Continue', nextHeartbeatIntervalMs: 5_000 }
      await backend.create(specOf('a'))
      await clock.advance(ms)
      return fleet.reports.filter((line) => line.includes('reports')).length
    }
    expect(await beatsIn(10_000)).toBe(3)
    expect(await beatsIn(10_000, 1_000)).toBe(11)
    expect(await beatsIn(10_000, 0)).toBe(1)
  })

  it('stays Active, and exits with code 0 when the reply is Terminate', async () => {
    const clock = virtualClock()
    const backend = memoryBackend({ clock })
    const fleet = listen(backend)
    await backend.create(specOf('a'))
    await clock.settle()
    fleet.answer = active
    await clock.advance(1_000)
    fleet.answer = { ...continueReply, sessionConfig: session }
    await clock.advance(2_000)
    fleet.answer = { operation: 'Terminate', nextHeartbeatIntervalMs: 1_000 }
    await clock.advance(2_000)
    expect(fleet.reports).toEqual([
      'a running',
      'a.secret reports StandingBy Healthy',
      'a.secret reports StandingBy Healthy',
      'a.secret reports Active Healthy',
      'a.secret reports Active Healthy',
      'a.secret reports Active Healthy',
      'a.secret reports Active Healthy',
      'a.secret reports Terminating Healthy',
      'a exited 0',
    ])
    expect(clock.pending).toBe(0)
  })

  it('applies the configured latencies to create, start, and readiness', async () => {
    const clock = virtualClock()
    const backend = memoryBackend({ clock, createLatencyMs: 100, startLatencyMs: 1_000, readyAfterMs: 2_500 })
    const { reports } = listen(backend)
    let answered = false
    const creating = backend.create(specOf('a')).then((instance) => {
      answered = true
      return instance
    })
    await clock.advance(99)
    expect([answered, reports]).toEqual([false, ['a pending']])
    await clock.advance(1)
    expect(await creating).toMatchObject({ phase: 'pending', reason: 'starting' })
    expect(await backend.list()).toHaveLength(1)
    await clock.advance(900)
    expect(reports.slice(1)).toEqual(['a running', 'a.secret reports Initializing Healthy'])
    await clock.advance(2_499)
    expect(reports.at(-1)).toBe('a.secret reports Initializing Healthy')
    await clock.advance(1)
    expect(reports.at(-1)).toBe('a.secret reports StandingBy Healthy')
  })

  it('follows its own script', async () => {
    const clock = virtualClock()
    const backend = memoryBackend({
      clock,
      script: ({ ref }) =>
        ({
          crash: { exitsWith: 1 },
          match: { exitsWith: 0, exitsAfterMs: 60_000 },
          none: { cannotStart: 'no binary' },
        })[ref.name] ?? {},
    })
    const { reports } = listen(backend)
    for (const name of ['crash', 'match', 'none', 'plain']) await backend.create(specOf(name))
    await clock.settle()
    const phases = () => backend.servers().map(({ ref, phase }) => `${ref.name} ${phase}`)
    expect(phases()).toEqual(['crash exited', 'match running', 'none exited', 'plain running'])
    expect(backend.server('none').instance).toMatchObject({ reason: 'no binary', ports: [{ container: 7777 }] })
    expect(reports).not.toContain('crash.secret reports StandingBy Healthy')
    await clock.advance(60_000)
    expect(backend.server('match').instance).toMatchObject({ phase: 'exited', exitCode: 0 })
  })

  it('vanishes without an exit code, and releases its ports', async () => {
    const backend = memoryBackend({ portRange: { first: 20_000, last: 20_000 } })
    const { reports } = listen(backend)
    await backend.create(specOf('a'))
    const server = backend.server('a')
    server.vanish()
    await promises()
    expect([server.phase, reports.at(-1), await backend.list()]).toEqual(['gone', 'a gone', []])
    await backend.create(specOf('b'))
    expect(() => server.heartbeat()).toThrow(/default\/a has ended/)
    expect(() => backend.server('a')).toThrow(/no server default\/a; known servers: default\/b/)
  })

  it('that ignores termination is removed after its grace period, or earlier if it exits', async () => {
    const clock = virtualClock()
    const backend = memoryBackend({ clock, script: () => ({ ignoresTerminate: true }) })
    await backend.create(specOf('a'))
    await backend.create(specOf('b'))
    let destroyed = ''
    for (const name of ['a', 'b']) {
      void backend
        .destroy({ namespace: 'default', name }, `uid-of-${name}`, { graceMs: 30_000 })
        .then(() => (destroyed += name))
    }
    await clock.advance(29_999)
    expect(destroyed).toBe('')
    backend.server('b').exit(0)
    await clock.settle()
    expect(destroyed).toBe('b')
    await clock.advance(1)
    expect([destroyed, await backend.list()]).toEqual(['ba', []])
  })

  it('is removed after the shortest grace period among concurrent destroy calls', async () => {
    const clock = virtualClock()
    const backend = memoryBackend({ clock, script: () => ({ ignoresTerminate: true }) })
    await backend.create(specOf('a'))
    const destroy = (graceMs: number) => backend.destroy(specOf('a').ref, 'uid-of-a', { graceMs })
    const all = Promise.all([destroy(30_000), destroy(60_000), destroy(5_000)])
    await clock.until(() => backend.servers().length === 0)
    await all
    expect(clock.elapsed()).toBe(5_000)
  })

  it('rejects a heartbeat when no fleet is running', async () => {
    const backend = memoryBackend({ script: 'manual' })
    await backend.create(specOf('a'))
    expect(() => backend.server('a').ready()).toThrow(/no fleet runs on this backend/)
  })
})

describe('the memory backend', () => {
  it('keeps its servers for the next fleet, which gets their heartbeats', async () => {
    const backend = memoryBackend()
    const first = listen(backend)
    await backend.create(specOf('a'))
    await promises()
    await backend.close()
    await backend.create(specOf('b'))
    const before = await backend.list()
    const second = listen(backend)
    await promises()
    expect(await backend.list()).toEqual(before)
    expect(first.reports).toHaveLength(2)
    expect(second.reports).toEqual(['a.secret reports StandingBy Healthy', 'b.secret reports StandingBy Healthy'])
  })

  it('makes each of the next creates fail once, and starts nothing for it', async () => {
    const backend = memoryBackend()
    backend.failNextCreate(new FleetError('unavailable', 'the machine is away'))
    backend.failNextCreate(new FleetError('ports-exhausted', 'none left'))
    await expect(backend.create(specOf('a'))).rejects.toMatchObject({ code: 'unavailable' })
    await expect(backend.create(specOf('a'))).rejects.toMatchObject({ code: 'ports-exhausted' })
    expect(await backend.list()).toEqual([])
    await backend.create(specOf('a'))
  })

  it('spreads servers across its nodes, each with the full port range', async () => {
    const backend = memoryBackend({ nodes: ['one', 'two'], portRange: { first: 20_000, last: 20_001 } })
    for (const name of ['a', 'b', 'c', 'd']) await backend.create(specOf(name))
    const held = (await backend.list()).map(({ node, address, ports }) => `${node} ${address}:${ports[0]?.public}`)
    expect(held).toEqual(['one 127.0.0.1:20000', 'two 127.0.0.2:20000', 'one 127.0.0.1:20001', 'two 127.0.0.2:20001'])
    await expect(backend.create(specOf('e'))).rejects.toMatchObject({ code: 'ports-exhausted' })
    await backend.create(specOf('e', { portsToExpose: [] }))
  })

  it('lists the servers of a single build', async () => {
    const backend = memoryBackend()
    await backend.create(specOf('a'))
    await backend.create(specOf('b', { build: { namespace: 'eu', name: 'arena', uid: 'x', buildID: 'y' } }))
    expect(backend.servers({ build: 'arena' }).map(({ ref }) => ref.name)).toEqual(['a'])
    expect(backend.servers({ build: { namespace: 'eu', name: 'arena' } }).map(({ ref }) => ref.name)).toEqual(['b'])
  })

  it('rejects a create whose signal is aborted during the latency', async () => {
    const clock = virtualClock()
    const backend = memoryBackend({ clock, createLatencyMs: 1_000 })
    const caller = new AbortController()
    const creating = backend.create(specOf('a'), { signal: caller.signal })
    caller.abort()
    await expect(creating).rejects.toMatchObject({ code: 'aborted' })
  })

  it('rejects invalid options with an error that names the option', () => {
    expect(() => memoryBackend({ startLatencyMs: 5 })).toThrow(/startLatencyMs is 5, which needs a clock/)
    expect(() => memoryBackend({ heartbeatIntervalMs: -1, clock: virtualClock() })).toThrow(
      /heartbeatIntervalMs must be/,
    )
    expect(() => memoryBackend({ nodes: [] })).toThrow(/nodes must be/)
    expect(() => memoryBackend({ nodes: ['a', 'a'] })).toThrow(/nodes must be/)
  })
})
