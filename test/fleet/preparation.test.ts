/** `backend.prepare` runs once per template before servers are started; meanwhile they stay Pending without a time limit. */
import type { Backend, GameServerBuildInput, PrepareOptions } from 'gamekeeper'
import { FleetError } from 'gamekeeper'
import { describe, expect, it } from 'vitest'
import { stage, type Stage } from './stage.js'

interface Fetch {
  readonly image: string
  readonly options: PrepareOptions
  done(): void
  fail(message: string): void
}

/** A backend whose `prepare` is controlled by the test. */
function withFetches({ backend }: Stage): { readonly backend: Backend; readonly fetches: Fetch[] } {
  const fetches: Fetch[] = []
  const prepared: Backend = {
    name: backend.name,
    capabilities: backend.capabilities,
    defaultStore: backend.defaultStore,
    create: (spec, options) => backend.create(spec, options),
    destroy: (ref, uid, options) => backend.destroy(ref, uid, options),
    list: (options) => backend.list(options),
    watch: (listener) => backend.watch(listener),
    close: () => backend.close(),
    prepare: ({ template }, options = {}) =>
      new Promise((resolve, reject) => {
        const image = /"image":"([^"]+)"/.exec(JSON.stringify(template))?.[1] ?? ''
        const fail = (message: string) => reject(new FleetError('unavailable', message))
        fetches.push({ image, options, done: resolve, fail })
      }),
  }
  return { backend: prepared, fetches }
}

function build(standingBy: number, image = 'arena:1'): GameServerBuildInput {
  const template = { spec: { containers: [{ name: 'game', image }] } }
  return {
    metadata: { name: 'arena' },
    spec: { buildID: 'arena', standingBy, max: 5, portsToExpose: [7777], template },
  }
}

describe('preparation of a build', () => {
  it('runs once for all servers, which start when it completes', async () => {
    const on = stage()
    const { backend, fetches } = withFetches(on)
    const fleet = await on.open({ backend })
    await fleet.builds.create(build(3))
    await on.clock.advance(200_000)
    expect(fetches).toHaveLength(1)
    expect((await fleet.builds.get('arena')).status).toMatchObject({ currentPending: 3, crashesCount: 0 })
    expect(on.backend.servers()).toEqual([])
    fetches[0]?.done()
    await on.clock.advance(100)
    expect((await fleet.builds.get('arena')).status.currentStandingBy).toBe(3)
    expect(on.eventsOf('BuildPreparing')).toEqual([])
  })

  it('runs before any server is needed', async () => {
    const on = stage()
    const { backend, fetches } = withFetches(on)
    const fleet = await on.open({ backend })
    await fleet.builds.create(build(0))
    await on.clock.advance(1)
    expect(fetches.map(({ image }) => image)).toEqual(['arena:1'])
  })

  it('runs again when the template changes, but not when only counts change', async () => {
    const on = stage()
    const { backend, fetches } = withFetches(on)
    const fleet = await on.open({ backend })
    await fleet.builds.create(build(0))
    await on.clock.advance(1)
    fetches[0]?.done()
    await fleet.builds.patch('arena', { standingBy: 1 })
    await on.clock.advance(5_000)
    expect(fetches).toHaveLength(1)
    await fleet.builds.update('arena', { template: build(1, 'arena:2').spec.template })
    await on.clock.advance(5_000)
    expect(fetches.map(({ image }) => image)).toEqual(['arena:1', 'arena:2'])
    // Running servers stay until their replacements are ready.
    expect((await fleet.builds.get('arena')).status.currentStandingBy).toBe(1)
  })

  it('reports progress in events and on each waiting server', async () => {
    const on = stage()
    const { backend, fetches } = withFetches(on)
    const fleet = await on.open({ backend })
    await fleet.builds.create(build(2))
    await on.clock.advance(1)
    fetches[0]?.options.onProgress?.('pulling image arena:1: 40 %')
    await on.clock.settle()
    expect(on.eventsOf('BuildPreparing').at(-1)).toMatchObject({
      status: 'working',
      message: 'build arena: pulling image arena:1: 40 %',
    })
    const messages = (await fleet.servers.list()).map(({ status }) => status.message)
    expect(messages).toEqual(['pulling image arena:1: 40 %', 'pulling image arena:1: 40 %'])
    fetches[0]?.done()
    await on.clock.advance(100)
    expect(on.eventsOf('BuildPreparing').at(-1)).toMatchObject({ status: 'done' })
  })

  it('is retried with back-off after a failure, which the build’s status reports and which counts no crash', async () => {
    const on = stage()
    const { backend, fetches } = withFetches(on)
    const fleet = await on.open({ backend })
    await fleet.builds.create(build(2))
    const tries: number[] = []
    for (let count = 1; count <= 5; count++) {
      await on.clock.advance(1)
      while (fetches.length < count) await on.clock.advance(100)
      tries.push(on.clock.elapsed())
      fetches.at(-1)?.fail('pull access denied')
    }
    await on.clock.advance(1)
    const { conditions, crashesCount, health } = (await fleet.builds.get('arena')).status
    expect(conditions).toMatchObject([{ type: 'CreateBlocked', reason: 'unavailable', message: 'pull access denied' }])
    expect({ crashesCount, health }).toEqual({ crashesCount: 0, health: 'Healthy' })
    const pauses = tries.slice(1).map((at, i) => at - (tries[i] ?? 0))
    for (const [i, pause] of pauses.entries()) expect(pause).toBeGreaterThanOrEqual(1_000 * 2 ** i)
    while (fetches.length < 6) await on.clock.advance(1_000)
    fetches.at(-1)?.done()
    await on.clock.advance(1_000)
    expect((await fleet.builds.get('arena')).status).toMatchObject({ currentStandingBy: 2 })
    expect((await fleet.builds.get('arena')).status.conditions ?? []).toEqual([])
  })

  it('is retried at once when a server needs it after an earlier failure', async () => {
    const on = stage()
    const { backend, fetches } = withFetches(on)
    const fleet = await on.open({ backend })
    await fleet.builds.create(build(0))
    await on.clock.advance(1)
    fetches[0]?.fail('registry is down')
    await on.clock.advance(3_600_000)
    await fleet.builds.patch('arena', { standingBy: 1 })
    await on.clock.advance(100)
    expect(fetches).toHaveLength(2)
    fetches[1]?.done()
    await on.clock.advance(100)
    expect((await fleet.builds.get('arena')).status.currentStandingBy).toBe(1)
    expect(on.eventsOf('ServerStartFailed')).toEqual([])
  })

  it.each([0, 5, 50])('does not reset the back-off of failing starts when preparation takes %i ms', async (ms) => {
    const startsOf = async (isPrepared: boolean) => {
      const on = stage({ limits: { maxConcurrentCreates: 2 } })
      const { backend } = withFetches(on)
      const prepare = () => new Promise<void>((resolve) => (ms ? on.clock.after(ms, resolve) : resolve()))
      let starts = 0
      const failing: Backend = {
        ...backend,
        create: () => {
          starts++
          return Promise.reject(new FleetError('ports-exhausted', 'no port is free'))
        },
        prepare,
      }
      const { prepare: _, ...unprepared } = failing
      const fleet = await on.open({ backend: isPrepared ? failing : unprepared })
      await fleet.builds.create(build(4))
      for (let i = 0; i < 60; i++) await on.clock.advance(1_000)
      // Reported once: a successful preparation does not clear a failed start.
      expect(on.eventsOf('ConditionChanged')).toHaveLength(1)
      return starts
    }
    const prepared = await startsOf(true)
    expect(prepared).toBeGreaterThanOrEqual(4 * 4)
    expect(prepared).toBeLessThanOrEqual(await startsOf(false))
  })

  it('runs for the new template before servers that waited for the old template start', async () => {
    const on = stage({ limits: { maxConcurrentCreates: 1 } })
    const { backend, fetches } = withFetches(on)
    const started: string[] = []
    const slow: Backend = {
      ...backend,
      create: async (spec, options) => {
        started.push(JSON.stringify(spec.template))
        await new Promise<void>((resolve) => on.clock.after(10_000, resolve))
        return backend.create(spec, options)
      },
    }
    const fleet = await on.open({ backend: slow })
    await fleet.builds.create(build(4))
    await on.clock.advance(1)
    fetches[0]?.done()
    await on.clock.advance(1_000)
    await fleet.builds.update('arena', { template: build(4, 'arena:2').spec.template })
    await on.clock.advance(60_000)
    expect(fetches.map(({ image }) => image)).toEqual(['arena:1', 'arena:2'])
    expect(started).toEqual([expect.stringContaining('arena:1')])
    fetches[1]?.done()
    for (let i = 0; i < 60; i++) await on.clock.advance(1_000)
    expect(new Set(started.slice(1))).toEqual(new Set([JSON.stringify(build(4, 'arena:2').spec.template)]))
    const servers = await fleet.servers.list()
    expect(servers.map(({ status }) => status.state)).toEqual(Array(4).fill('StandingBy'))
  })

  it('is aborted and reports nothing further once its template is outdated', async () => {
    const on = stage()
    const { backend, fetches } = withFetches(on)
    const fleet = await on.open({ backend })
    await fleet.builds.create(build(1))
    await on.clock.advance(1)
    fetches[0]?.options.onProgress?.('pulling image arena:1: 40 %')
    await fleet.builds.update('arena', { template: build(1, 'arena:2').spec.template })
    await on.clock.advance(1)
    expect(fetches.map(({ options }) => options.signal?.aborted)).toEqual([true, false])
    fetches[0]?.options.onProgress?.('pulling image arena:1: 80 %')
    fetches[0]?.fail('no such image arena:1')
    await on.clock.advance(5_000)
    expect(on.eventsOf('BuildPreparing').map(({ message }) => message)).toEqual([
      'build arena: pulling image arena:1: 40 %',
    ])
    expect((await fleet.servers.list()).map(({ status }) => status.message)).not.toContainEqual(
      expect.stringContaining('arena:1'),
    )
    expect((await fleet.builds.get('arena')).status.conditions ?? []).toEqual([])
  })

  it('runs at once for a new template, despite the back-off of the old template', async () => {
    const on = stage()
    const { backend, fetches } = withFetches(on)
    const fleet = await on.open({ backend })
    await fleet.builds.create(build(2, 'arena:typo'))
    for (let count = 1; count <= 5; count++) {
      while (fetches.length < count) await on.clock.advance(100)
      fetches.at(-1)?.fail('no such image')
    }
    await on.clock.advance(1)
    await fleet.builds.update('arena', { template: build(2).spec.template })
    await on.clock.advance(1)
    expect(fetches.map(({ image }) => image)).toEqual([...Array<string>(5).fill('arena:typo'), 'arena:1'])
    fetches.at(-1)?.done()
    await on.clock.advance(100)
    expect((await fleet.builds.get('arena')).status.currentStandingBy).toBe(2)
  })

  it('that has succeeded is withdrawn once its template is outdated, its build is deleted or the fleet closes', async () => {
    const on = stage()
    const { backend, fetches } = withFetches(on)
    const fleet = await on.open({ backend })
    const withdrawn = () => fetches.map(({ options }) => options.signal?.aborted)
    const prepared = async () => {
      await on.clock.advance(100)
      fetches.at(-1)?.done()
      await on.clock.advance(100)
    }
    await fleet.builds.create(build(0))
    await prepared()
    expect(withdrawn()).toEqual([false])
    await fleet.builds.update('arena', { template: build(0, 'arena:2').spec.template })
    await prepared()
    expect(withdrawn()).toEqual([true, false])
    await fleet.builds.delete('arena')
    await on.clock.advance(100)
    expect(withdrawn()).toEqual([true, true])
    await fleet.builds.create(build(0))
    await prepared()
    expect(withdrawn()).toEqual([true, true, false])
    await fleet.close()
    expect(withdrawn()).toEqual([true, true, true])
  })

  it('does not block deletion of the build, and is aborted when the fleet closes', async () => {
    const on = stage()
    const { backend, fetches } = withFetches(on)
    const fleet = await on.open({ backend })
    await fleet.builds.create(build(2))
    await on.clock.advance(1)
    await fleet.builds.delete('arena')
    await on.clock.advance(3_000)
    expect(await fleet.servers.list()).toEqual([])
    await fleet.close()
    expect(fetches[0]?.options.signal?.aborted).toBe(true)
  })
})

describe('logs', () => {
  it('are unsupported by a backend that does not keep them', async () => {
    const on = stage()
    const fleet = await on.open()
    expect(() => fleet.servers.logs('arena-x7k2p')).toThrow(
      expect.objectContaining({ code: 'unsupported', message: 'the memory backend keeps no logs of its servers' }),
    )
  })
})
