/** Crashes: each counts once, even if the host dies, and starts a back-off; and what an Unhealthy build still does. */
import type { Backend, Instance } from 'gamekeeper'
import type { CallFault, FaultyCall } from 'gamekeeper/testing'
import { describe, expect, it } from 'vitest'
import {
  aBuild,
  ask,
  failureOf,
  nth,
  only,
  playing,
  serversBy,
  stage,
  type StageOptions,
  statusOf,
  untilReady,
} from './stage.js'

async function standing(overrides: Parameters<typeof aBuild>[0] = {}, options: StageOptions = {}) {
  const scene = stage(options)
  const fleet = await scene.open()
  await fleet.builds.create(aBuild({ standingBy: 1, max: 3, ...overrides }))
  await untilReady(scene, fleet, overrides.standingBy ?? 1)
  return { scene, fleet }
}

describe('a crash', () => {
  it('is counted durably before the server’s record is deleted', async () => {
    const { scene } = await standing()
    const before = scene.calls.length
    only(scene.backend.servers()).exit(1)
    await scene.clock.settle()
    const methods = scene.calls.slice(before).map(({ method }) => method)
    expect(methods.filter((method) => /^(builds.update|servers.delete|destroy)$/.test(method))).toEqual([
      'builds.update',
      'destroy',
      'servers.delete',
    ])
  })

  it('is counted once per server when hundreds of servers crash together, and the list of counted servers stays bounded', async () => {
    const { scene, fleet } = await standing({ standingBy: 300, max: 300 }, { limits: { maxCreatesPerReconcile: 300 } })
    for (const server of scene.backend.servers()) server.exit(1)
    await scene.clock.advance(600_000)
    expect((await statusOf(fleet)).crashesCount).toBe(300)
    only(scene.backend.servers().slice(0, 1)).exit(1)
    await scene.clock.settle()
    const [build] = await scene.records.builds.list()
    expect([build?.record.crashes, build?.record.countedCrashes.length]).toEqual([301, 1])
  })

  /** The host dies at the n-th call after the crash, before or after that call has its effect. */
  const moments: readonly { readonly when: string; readonly fault: CallFault }[] = [
    { when: 'before', fault: { kind: 'refuse' } },
    { when: 'after', fault: { kind: 'hang' } },
    { when: 'long before', fault: { kind: 'delay-effect', ms: 2_000 } },
  ]
  it.each([0, 1, 2, 3, 4, 5].flatMap((n) => moments.map((moment) => ({ n, ...moment }))))(
    'is counted once when the host dies $when call $n',
    async ({ n, fault }) => {
      const { scene, fleet } = await standing({ standingBy: 1, max: 1 })
      await scene.clock.advance(2_500)
      let left = n
      const dying = ({ method }: FaultyCall) => {
        if (method === 'list' || left-- !== 0) return undefined
        scene.crash()
        return fault
      }
      scene.faults.store = dying
      scene.faults.backend = dying
      only(scene.backend.servers()).exit(1)
      await scene.clock.advance(300)
      scene.faults.store = () => undefined
      scene.faults.backend = () => undefined
      const survives = left >= 0
      const next = survives ? fleet : await scene.open()
      await scene.clock.advance(120_000)
      expect(await statusOf(next)).toMatchObject({ crashesCount: 1, currentStandingBy: 1 })
      expect((await next.servers.list()).length).toBe(1)
      expect(scene.backend.servers().length).toBe(1)
      expect((await scene.records.servers.list()).length).toBe(1)
    },
  )

  it('counts for the limit from the moment it is noticed, so that a slow write of the count starts no further server', async () => {
    const { scene, fleet } = await standing({ standingBy: 2, max: 8, crashesToMarkUnhealthy: 3 })
    scene.faults.store = ({ method }) => (method === 'builds.update' ? { kind: 'delay-effect', ms: 20_000 } : undefined)
    const created: string[] = []
    fleet.on('ServerCreated', ({ server }) => created.push(server.name))
    for (let second = 0; second < 10; second++) {
      for (const server of scene.backend.servers()) server.exit(1)
      await scene.clock.advance(1_000)
    }
    expect(created).toHaveLength(2)
    scene.faults.store = () => undefined
    await scene.clock.advance(120_000)
    expect(await statusOf(fleet)).toMatchObject({ health: 'Unhealthy', crashesCount: 4 })
    expect(created).toHaveLength(2)
  })

  it('is counted once when the outcome of the write is temporarily unknown', async () => {
    const { scene, fleet } = await standing()
    let calls = 0
    scene.faults.store = ({ method }) => {
      if (method === 'builds.update' && calls++ === 0) return { kind: 'lose-reply' }
      return method === 'builds.get' ? { kind: 'refuse' } : undefined
    }
    only(scene.backend.servers()).exit(1)
    await scene.clock.advance(500)
    scene.faults.store = () => undefined
    await scene.clock.advance(60_000)
    expect(await statusOf(fleet)).toMatchObject({ crashesCount: 1, currentStandingBy: 1 })
    expect(only(await scene.records.builds.list()).record.crashes).toBe(1)
  })

  it('is counted once by the next host if it happened while no host was running', async () => {
    const { scene, fleet } = await standing({ standingBy: 3 })
    await fleet.close()
    const [first, second] = scene.backend.servers()
    first?.exit(1)
    second?.exit(0)
    const next = await scene.open()
    await scene.clock.advance(10_000)
    expect(await statusOf(next)).toMatchObject({ crashesCount: 1 })
    await next.close()
    const third = await scene.open()
    await scene.clock.advance(10_000)
    expect(await statusOf(third)).toMatchObject({ crashesCount: 1, currentStandingBy: 3 })
  })

  it('remains counted after a restart', async () => {
    const { scene, fleet } = await standing()
    for (let i = 0; i < 3; i++) {
      nth(scene.backend.servers(), 0).exit(1)
      await untilReady(scene, fleet, 0)
      await untilReady(scene, fleet, 1)
    }
    expect((await statusOf(fleet)).crashesCount).toBe(3)
    await fleet.close()
    const next = await scene.open()
    expect((await statusOf(next)).crashesCount).toBe(3)
  })

  it('that precedes the deletion of its build does not count for a later build with the same name', async () => {
    const { scene, fleet } = await standing({ crashesToMarkUnhealthy: 1 })
    only(scene.backend.servers()).exit(1)
    await scene.clock.advance(100)
    expect(await statusOf(fleet)).toMatchObject({ crashesCount: 1, health: 'Unhealthy' })
    await fleet.builds.delete('arena')
    await fleet.builds.create(aBuild({ standingBy: 1, max: 3, crashesToMarkUnhealthy: 1 }))
    await untilReady(scene, fleet, 1)
    expect(await statusOf(fleet)).toMatchObject({ crashesCount: 0, health: 'Healthy' })
  })

  it('on a server of a deleted build does not count for a new build with the same name', async () => {
    const { scene, fleet } = await standing(
      { graceSeconds: 60 },
      { memory: { script: () => ({ ignoresTerminate: true }) } },
    )
    const old = only(scene.backend.servers())
    await fleet.builds.delete('arena')
    await fleet.builds.create(aBuild({ standingBy: 1, max: 3 }))
    await scene.clock.advance(1_000)
    old.exit(1)
    await scene.clock.advance(5_000)
    expect(await statusOf(fleet)).toMatchObject({ crashesCount: 0 })
  })

  it('sets the condition Crashing, which is cleared once servers stay up', async () => {
    const { scene, fleet } = await standing()
    only(scene.backend.servers()).exit(3)
    await scene.clock.settle()
    expect((await statusOf(fleet)).conditions).toMatchObject([
      { type: 'Crashing', reason: 'NonZeroExit', message: expect.stringContaining('exited with code 3') },
    ])
    await scene.clock.advance(59_000)
    expect((await statusOf(fleet)).conditions?.length).toBe(1)
    await scene.clock.advance(5_000)
    const status = await statusOf(fleet)
    expect([status.conditions, status.crashesCount]).toEqual([undefined, 1])
  })
})

describe('creation after crashes', () => {
  const bad: StageOptions = { memory: { script: () => ({ exitsWith: 1 }) } }
  const createdAt = ({ calls }: ReturnType<typeof stage>) =>
    calls.filter(({ method }) => method === 'create').map(({ atMs }) => atMs)

  it('backs off for 1 s, 2 s, 4 s, and so on, up to 60 s', async () => {
    const scene = stage(bad)
    const fleet = await scene.open()
    await fleet.builds.create(aBuild({ standingBy: 1, max: 1 }))
    await scene.clock.advance(400_000)
    const times = createdAt(scene)
    const pauses = times.slice(1).map((time, index) => time - nth(times, index))
    expect(pauses.slice(0, 9)).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000])
  })

  it('is bounded: a broken template creates about a hundred servers per hour, not thousands', async () => {
    const scene = stage(bad)
    const fleet = await scene.open()
    await fleet.builds.create(aBuild({ standingBy: 2, max: 10 }))
    await scene.clock.advance(3_600_000)
    expect(createdAt(scene).length).toBeLessThan(150)
    expect((await statusOf(fleet)).crashesCount).toBe(createdAt(scene).length)
  })

  it('is bounded when servers that were ready exit with code 0 before they have a session', async () => {
    const scene = stage({ memory: { script: () => ({ exitsWith: 0, exitsAfterMs: 5_000 }) } })
    const fleet = await scene.open()
    await fleet.builds.create(aBuild({ standingBy: 2, max: 10 }))
    await scene.clock.advance(3_600_000)
    expect(createdAt(scene).length).toBeLessThan(150)
    expect((await statusOf(fleet)).crashesCount).toBe(0)
  })

  it('is bounded when the backend rejects every create', async () => {
    const scene = stage()
    scene.faults.backend = ({ method }) => (method === 'create' ? { kind: 'refuse' } : undefined)
    const fleet = await scene.open()
    await fleet.builds.create(aBuild({ standingBy: 2, max: 10 }))
    await scene.clock.advance(3_600_000)
    expect(createdAt(scene).length).toBeLessThan(150)
    expect((await fleet.servers.list()).length).toBe(2)
  })

  it('is bounded while callers wait', async () => {
    const scene = stage(bad)
    const fleet = await scene.open()
    await fleet.builds.create(aBuild({ standingBy: 0, max: 10 }))
    for (let n = 0; n < 60; n++) {
      void fleet.allocate(ask(n), { waitMs: 60_000 }).catch(() => {})
      await scene.clock.advance(10_000)
    }
    expect(createdAt(scene).length).toBeLessThan(200)
  })

  it('backs off for the crashing build only', async () => {
    const scene = stage({ memory: { script: (spec) => (spec.build.name === 'bad' ? { exitsWith: 1 } : {}) } })
    const fleet = await scene.open()
    await fleet.builds.create(aBuild({ name: 'bad', standingBy: 1 }))
    await scene.clock.advance(60_000)
    await fleet.builds.create(aBuild({ standingBy: 3 }))
    await scene.clock.advance(100)
    expect((await statusOf(fleet)).currentStandingBy).toBe(3)
  })

  it('restarts with the shortest back-off after a server has stayed up for 60 s', async () => {
    const { scene } = await standing({ standingBy: 1, max: 1 })
    const crash = async () => {
      const at = scene.clock.elapsed()
      only(scene.backend.servers().filter(({ phase }) => phase === 'running')).exit(1)
      await scene.clock.advance(10_000)
      return nth(createdAt(scene), createdAt(scene).length - 1) - at
    }
    expect(await crash()).toBe(1_000)
    expect(await crash()).toBe(2_000)
    await scene.clock.advance(65_000)
    expect(await crash()).toBe(1_000)
  })

  it('backs off only once for many simultaneous crashes', async () => {
    const { scene, fleet } = await standing({ standingBy: 10, max: 10 })
    const at = scene.clock.elapsed()
    for (const server of scene.backend.servers()) server.exit(1)
    await untilReady(scene, fleet, 0)
    await untilReady(scene, fleet, 10)
    expect(scene.clock.elapsed() - at).toBeLessThanOrEqual(1_000)
    expect((await statusOf(fleet)).crashesCount).toBe(10)
  })
})

describe('creation after terminations that are not crashes', () => {
  /** Reports every exited instance as interrupted by its machine. */
  function interrupting(inner: Backend): Backend {
    const interrupted = ({ exitCode: _, ...instance }: Instance): Instance =>
      instance.phase === 'exited' ? { ...instance, interrupted: true, reason: 'OutOfcpu: no room for it' } : instance
    return {
      ...inner,
      create: async (spec, options) => interrupted(await inner.create(spec, options)),
      list: async (options) => (await inner.list(options)).map(interrupted),
      watch: (listener) => inner.watch({ ...listener, changed: (instance) => listener.changed(interrupted(instance)) }),
    }
  }

  async function scenes(options: StageOptions, overrides: Parameters<typeof aBuild>[0]) {
    const scene = stage(options)
    const fleet = await scene.open({ backend: interrupting(scene.backend) })
    await fleet.builds.create(aBuild(overrides))
    const creations = () => scene.eventsOf('ServerCreated').map(({ at }) => at)
    return { scene, fleet, creations }
  }

  it('is bounded when servers are terminated before they become StandingBy, and a condition gives the reason', async () => {
    const options: StageOptions = { memory: { script: () => ({ cannotStart: 'no room' }) } }
    const { scene, fleet, creations } = await scenes(options, { standingBy: 2, max: 10 })
    for (let minute = 0; minute < 60; minute++) {
      // Advances in steps: without a back-off, a whole hour would never end.
      await scene.clock.advance(minute === 0 ? 1_000 : 60_000)
      expect(creations().length).toBeLessThan(minute === 0 ? 10 : 150)
    }
    expect(await statusOf(fleet)).toMatchObject({
      ...{ crashesCount: 0, health: 'Healthy' },
      conditions: [{ type: 'CreateBlocked', message: expect.stringContaining('OutOfcpu: no room for it') }],
    })
    expect(scene.eventsOf('ConditionChanged').length).toBe(1)
  })

  it('returns to normal and clears the condition once servers run', async () => {
    let room = false
    const options: StageOptions = { memory: { script: () => (room ? {} : { cannotStart: 'no room' }) } }
    const { scene, fleet } = await scenes(options, { standingBy: 2, max: 10 })
    await scene.clock.advance(20_000)
    room = true
    await untilReady(scene, fleet, 2)
    await scene.clock.advance(2_000)
    expect(await statusOf(fleet)).not.toHaveProperty('conditions')
  })

  it('is bounded when something keeps removing servers soon after they stand by, and a condition says so', async () => {
    const { scene, fleet, creations } = await scenes({}, { standingBy: 2, max: 10 })
    const removeAll = () => {
      for (const server of scene.backend.servers()) if (server.phase === 'running') server.exit(137)
    }
    for (let second = 0; second < 1_800; second++) {
      await scene.clock.advance(1_000)
      removeAll()
    }
    // The first losses are replaced at once; then 1 s, 2 s, 4 s … 60 s.
    expect(creations().length).toBeLessThan(90)
    expect(await statusOf(fleet)).toMatchObject({
      ...{ crashesCount: 0, health: 'Healthy' },
      conditions: [
        {
          ...{ type: 'Disappearing', reason: 'Gone' },
          message: expect.stringMatching(/^replaced servers disappear again .*: OutOfcpu: no room for it$/),
        },
      ],
    })
    expect(scene.eventsOf('ConditionChanged').length).toBe(1)
    await untilReady(scene, fleet, 2)
    await scene.clock.advance(125_000)
    expect(await statusOf(fleet)).not.toHaveProperty('conditions')
  })

  it('stays bounded after a restart of the host', async () => {
    const { scene, fleet, creations } = await scenes({}, { standingBy: 1, max: 1 })
    for (let i = 0; i < 3; i++) {
      await untilReady(scene, fleet, 1)
      only(scene.backend.servers()).exit(137)
      await scene.clock.settle()
    }
    await fleet.close()
    const before = creations().length
    const next = await scene.open({ backend: interrupting(scene.backend) })
    await scene.clock.advance(500)
    expect(creations().length).toBe(before)
    expect(await statusOf(next)).toMatchObject({ conditions: [{ type: 'Disappearing' }] })
    await untilReady(scene, next, 1)
    await scene.clock.advance(125_000)
    expect(await statusOf(next)).not.toHaveProperty('conditions')
  })

  it.each([1, 50])('is at once for %i servers that are lost, even if it happens again a while later', async (lost) => {
    const { scene, fleet, creations } = await scenes({}, { standingBy: 50, max: 200 })
    await untilReady(scene, fleet, 50)
    for (let round = 1; round <= 3; round++) {
      await scene.clock.advance(62_000)
      for (const server of scene.backend.servers().slice(0, lost)) server.exit(137)
      await scene.clock.advance(900)
      expect(await statusOf(fleet)).toMatchObject({ currentStandingBy: 50 })
      expect(creations().length).toBe(50 + round * lost)
    }
    expect(await statusOf(fleet)).not.toHaveProperty('conditions')
  })

  it('does not back off when servers that were standing by are lost with their machine', async () => {
    const { scene, fleet, creations } = await scenes({}, { standingBy: 3, max: 3 })
    await untilReady(scene, fleet, 3)
    await scene.clock.advance(2_000)
    for (const server of scene.backend.servers()) server.exit(137)
    await scene.clock.advance(500)
    expect(await statusOf(fleet)).toMatchObject({ currentStandingBy: 3, crashesCount: 0 })
    expect([creations().length, (await statusOf(fleet)).conditions]).toEqual([6, undefined])
  })

  it('does not back off when servers are terminated intentionally', async () => {
    const { scene, fleet, creations } = await scenes({ memory: { script: 'manual' } }, { standingBy: 2, max: 3 })
    await scene.clock.advance(1_000)
    await fleet.builds.patch('arena', { standingBy: 0 })
    await scene.clock.advance(100)
    await fleet.builds.patch('arena', { standingBy: 2 })
    await scene.clock.advance(100)
    expect(creations().length).toBe(4)
    for (const { metadata } of await serversBy(fleet, 'Initializing')) await fleet.servers.delete(metadata)
    await scene.clock.advance(100)
    expect(creations().length).toBe(6)
  })
})

describe('an Unhealthy build', () => {
  async function unhealthy() {
    const { scene, fleet } = await standing({ standingBy: 4, max: 8, crashesToMarkUnhealthy: 2 })
    await fleet.allocate(ask(1))
    await scene.clock.advance(2_000)
    const idle = scene.backend.servers().filter(({ session }) => !session)
    nth(idle, 0).exit(1)
    await scene.clock.settle()
    expect(await statusOf(fleet)).toMatchObject({ health: 'Healthy', crashesCount: 1 })
    nth(idle, 1).exit(1)
    await scene.clock.settle()
    expect(await statusOf(fleet)).toMatchObject({ health: 'Unhealthy', crashesCount: 2 })
    return { scene, fleet }
  }

  it('gets no new servers, even when callers wait', async () => {
    const { scene, fleet } = await unhealthy()
    const before = scene.calls.filter(({ method }) => method === 'create').length
    for (const n of [2, 3, 4]) void fleet.allocate(ask(n), { waitMs: 60_000 }).catch(() => {})
    await scene.clock.advance(600_000)
    expect(scene.calls.filter(({ method }) => method === 'create').length).toBe(before)
  })

  it('still allocates servers that are standing by, cleans up, counts crashes and scales down', async () => {
    const { scene, fleet } = await unhealthy()
    await fleet.allocate(ask(2))
    ;(await playing(scene, fleet, 2)).exit(1)
    await scene.clock.advance(1_000)
    expect(await statusOf(fleet)).toMatchObject({ crashesCount: 3, currentActive: 1, currentStandingBy: 1 })
    expect(await serversBy(fleet, 'Terminating')).toEqual([])
    await fleet.builds.patch('arena', { standingBy: 0 })
    await scene.clock.advance(60_000)
    expect(await statusOf(fleet)).toMatchObject({ currentStandingBy: 0, currentActive: 1, health: 'Unhealthy' })
    expect(scene.backend.servers().length).toBe(1)
  })

  it('is reported in a single event', async () => {
    const { scene, fleet } = await unhealthy()
    await fleet.builds.patch('arena', { standingBy: 3 })
    await scene.clock.advance(1_000)
    expect(scene.eventsOf('BuildHealthChanged').map(({ health }) => health)).toEqual(['Unhealthy'])
  })

  it('stays Unhealthy across a restart', async () => {
    const { scene, fleet } = await unhealthy()
    await fleet.close()
    const next = await scene.open()
    await scene.clock.advance(60_000)
    expect(await statusOf(next)).toMatchObject({ health: 'Unhealthy', crashesCount: 2, currentStandingBy: 2 })
  })

  it('is said to be stopped, with the cause, also after a restart', async () => {
    const { scene, fleet } = await unhealthy()
    const problems = await fleet.problems()
    expect(problems).toMatchObject([
      {
        severity: 'degraded',
        kind: 'Unhealthy',
        title: 'arena is stopped: 2 crashes, 2 of 4 ready',
        cause: expect.stringMatching(/^the process exited with code 1$/),
        build: { namespace: 'default', name: 'arena' },
      },
    ])
    const { since, server } = problems[0] ?? {}
    expect(scene.eventsOf('ServerEnding').findLast((event) => event.at === since)?.server).toEqual(server)
    await fleet.close()
    expect(await (await scene.open()).problems()).toEqual(problems)
  })

  it('stays Unhealthy when standingBy and max are patched', async () => {
    const { fleet } = await unhealthy()
    await fleet.builds.patch('arena', { standingBy: 5, max: 9 })
    expect(await statusOf(fleet)).toMatchObject({ health: 'Unhealthy', crashesCount: 2 })
  })

  it('becomes Healthy when its crash limit is raised', async () => {
    const { scene, fleet } = await unhealthy()
    await fleet.builds.update('arena', { crashesToMarkUnhealthy: 10 })
    expect(await statusOf(fleet)).toMatchObject({ health: 'Healthy', crashesCount: 2 })
    await untilReady(scene, fleet, 4)
    expect(scene.eventsOf('BuildHealthChanged').map(({ health }) => health)).toEqual(['Unhealthy', 'Healthy'])
  })
})

describe('a server that ends with code 0', () => {
  const script = () => ({ autoReady: false, exitsWith: 0, exitsAfterMs: 500 })

  it('before it was ready is a failed start: a crash with a condition that reaches the limit', async () => {
    const scene = stage({ memory: { script } })
    const fleet = await scene.open()
    await fleet.builds.create(aBuild({ standingBy: 1, max: 3, crashesToMarkUnhealthy: 3 }))
    await scene.clock.advance(1_000)
    expect(await statusOf(fleet)).toMatchObject({
      crashesCount: 1,
      conditions: [
        {
          ...{ type: 'Crashing', reason: 'Exited' },
          message: expect.stringMatching(/^arena-\w{5}: the process exited with code 0 before it was ready/),
        },
      ],
    })
    expect((await failureOf(fleet.allocate(ask(1)))).message).toContain('exited with code 0 before it was ready')
    await scene.clock.advance(60_000)
    expect(await statusOf(fleet)).toMatchObject({ crashesCount: 3, health: 'Unhealthy' })
  })

  it('before it was ready is a failed start if its game says that it terminates, too', async () => {
    const scene = stage({ memory: { script: 'manual' } })
    const fleet = await scene.open()
    await fleet.builds.create(aBuild({ standingBy: 1, max: 3 }))
    await scene.clock.advance(500)
    only(scene.backend.servers()).heartbeat({ state: 'Terminating' })
    await scene.clock.advance(500)
    expect(await statusOf(fleet)).toMatchObject({
      crashesCount: 1,
      conditions: [{ type: 'Crashing', message: expect.stringContaining('Terminating before it was ready') }],
    })
  })

  it('again and again while it stands by is no crash, but a condition says so', async () => {
    const scene = stage()
    const fleet = await scene.open()
    await fleet.builds.create(aBuild({ standingBy: 2, max: 3 }))
    await untilReady(scene, fleet, 2)
    only(scene.backend.servers().slice(0, 1)).exit(0)
    await scene.clock.advance(500)
    expect(await statusOf(fleet)).not.toHaveProperty('conditions')
    for (let second = 0; second < 60; second++) {
      for (const server of scene.backend.servers()) if (server.phase === 'running') server.exit(0)
      await scene.clock.advance(1_000)
    }
    expect(await statusOf(fleet)).toMatchObject({
      crashesCount: 0,
      conditions: [
        {
          ...{ type: 'Disappearing', reason: 'Exited' },
          message: expect.stringMatching(
            /^servers keep ending while they are standing by: the process exited with code 0/,
          ),
        },
      ],
    })
    await untilReady(scene, fleet, 2)
    await scene.clock.advance(125_000)
    expect(await statusOf(fleet)).not.toHaveProperty('conditions')
  })

  it('or another code before it was ready is told with the last lines of its log, without its secrets and control characters', async () => {
    const scene = stage({ memory: { script } })
    const lines = ['loading', 'You need to agree to the EULA.', '\u001b]52;c;Zm9v\u0007Go to eula.txt', '']
    const backend: Backend = {
      ...scene.backend,
      logs: async function* ({ name }, { tail = 0 } = {}) {
        const token =
          (await scene.records.servers.list()).find(({ record }) => record.name === name)?.record.token ?? ''
        yield* [...lines, `my id is ${name}.${token}`].slice(-tail)
      },
    }
    const fleet = await scene.open({ backend })
    await fleet.builds.create(aBuild({ standingBy: 1, max: 1 }))
    await scene.clock.advance(1_000)
    const message = only((await statusOf(fleet)).conditions ?? []).message
    expect(message).toMatch(
      /before it was ready; its last output: You need to agree to the EULA\. \| \]52;c;Zm9vGo to eula\.txt \| my id is arena-\w{5}\.\*{3}$/,
    )
    expect(scene.eventsOf('ConditionChanged').map((event) => event.message)).toContain(message)
  })

  it('counts although its log cannot be read in time', async () => {
    const scene = stage({ memory: { script } })
    const backend: Backend = {
      ...scene.backend,
      // eslint-disable-next-line require-yield
      logs: async function* (_ref, { signal } = {}) {
        await new Promise((resolve) => signal?.addEventListener('abort', resolve))
      },
    }
    const fleet = await scene.open({ backend })
    await fleet.builds.create(aBuild({ standingBy: 1, max: 1 }))
    await scene.clock.advance(10_000)
    expect((await statusOf(fleet)).crashesCount).toBeGreaterThan(0)
  })
})
