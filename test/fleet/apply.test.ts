/** `builds.apply`: creates a build or changes it to the given spec, whatever other calls and hosts do meanwhile. */
import { describe, expect, it } from 'vitest'
import { aBuild, failureOf, only, stage, untilReady } from './stage.js'

async function opened() {
  const scene = stage()
  return { scene, fleet: await scene.open() }
}

describe('applying a build', () => {
  it('creates it, changes it, or leaves it, and says which', async () => {
    const { scene, fleet } = await opened()
    const first = await fleet.builds.apply(aBuild({ standingBy: 1, max: 2 }))
    expect(first).toEqual({ result: 'created', build: await fleet.builds.get('arena') })
    const writes = scene.calls.filter(({ method }) => method === 'builds.update').length
    expect((await fleet.builds.apply(aBuild({ standingBy: 1, max: 2 }))).result).toBe('unchanged')
    expect(scene.calls.filter(({ method }) => method === 'builds.update')).toHaveLength(writes)
    expect(await fleet.builds.apply(aBuild({ standingBy: 2, max: 3 }))).toMatchObject({
      result: 'updated',
      build: { spec: { standingBy: 2, max: 3 } },
    })
    expect([scene.eventsOf('BuildCreated').length, scene.eventsOf('BuildUpdated').length]).toEqual([1, 1])
  })

  it('removes optional fields that are absent, and ignores the order of fields', async () => {
    const { fleet } = await opened()
    const { metadata, spec } = aBuild({ standingBy: 0, max: 1 })
    await fleet.builds.apply({ metadata, spec: { ...spec, crashesToMarkUnhealthy: 3, buildMetadata: { map: 'dust' } } })
    const { build, result } = await fleet.builds.apply({ metadata, spec })
    expect([result, build.spec]).toEqual(['updated', spec])
    const reversed = Object.fromEntries(Object.entries(spec).toReversed()) as typeof spec
    expect((await fleet.builds.apply({ metadata, spec: reversed })).result).toBe('unchanged')
  })

  it('takes effect after a restart with another standingBy', async () => {
    const { scene, fleet } = await opened()
    await fleet.builds.apply(aBuild({ standingBy: 1, max: 5 }))
    await untilReady(scene, fleet, 1)
    await fleet.close()
    const next = await scene.open()
    expect((await next.builds.apply(aBuild({ standingBy: 3, max: 5 }))).result).toBe('updated')
    await untilReady(scene, next, 3)
  })

  it('starts a rolling update when the template differs, and never ends a match', async () => {
    const { scene, fleet } = await opened()
    const input = aBuild({ standingBy: 1, max: 3 })
    await fleet.builds.apply(input)
    await untilReady(scene, fleet, 1)
    await fleet.allocate({ buildID: input.spec.buildID, sessionID: '3f2504e0-4f89-41d3-9a0c-0305e82c3301' })
    const playing = (await fleet.servers.list()).find(({ status }) => status.state === 'Active')
    await untilReady(scene, fleet, 1)
    const idle = (await fleet.servers.list()).find(({ status }) => status.state === 'StandingBy')
    const template = { spec: { containers: [{ name: 'game', command: ['game', '--v2'] }] } }
    await fleet.builds.apply({ ...input, spec: { ...input.spec, template } })
    await scene.clock.advance(60_000)
    const names = (await fleet.servers.list()).map(({ metadata }) => metadata.name)
    expect([names.includes(playing?.metadata.name ?? ''), names.includes(idle?.metadata.name ?? '')]).toEqual([
      true,
      false,
    ])
  })

  it('rejects another buildID, a buildID in use and an invalid spec, and changes nothing', async () => {
    const { fleet } = await opened()
    await fleet.builds.apply(aBuild({ standingBy: 0, max: 1 }))
    expect(await failureOf(fleet.builds.apply(aBuild({ buildID: 'other' })))).toMatchObject({
      code: 'invalid',
      message: 'spec.buildID cannot be changed; create another build',
    })
    expect(await failureOf(fleet.builds.apply(aBuild({ name: 'duel', buildID: 'arena' })))).toMatchObject({
      code: 'exists',
      message: 'spec.buildID "arena" is already used by build default/arena',
    })
    expect((await failureOf(fleet.builds.apply(aBuild({ standingBy: 3, max: 2 })))).code).toBe('invalid')
    expect(only(await fleet.builds.list()).spec).toMatchObject({ standingBy: 0, max: 1 })
  })

  it('creates one build when calls run concurrently, of which the last one decides', async () => {
    const { scene, fleet } = await opened()
    scene.faults.store = ({ method }) => (method === 'builds.create' ? { kind: 'delay-reply', ms: 500 } : undefined)
    const calls = Promise.all([
      fleet.builds.apply(aBuild({ standingBy: 0, max: 1 })),
      fleet.builds.apply(aBuild({ standingBy: 0, max: 2 })),
      fleet.builds.apply(aBuild({ standingBy: 0, max: 2 })),
    ])
    await scene.clock.advance(1_000)
    expect((await calls).map(({ result }) => result)).toEqual(['created', 'updated', 'unchanged'])
    expect(only(await scene.records.builds.list()).record.spec.max).toBe(2)
  })

  it('creates the build if the concurrent creation fails', async () => {
    const { scene, fleet } = await opened()
    let creations = 0
    scene.faults.store = ({ method }) =>
      method === 'builds.create' && creations++ === 0
        ? { kind: 'refuse', error: new Error('the store is away') }
        : undefined
    const [created, applied] = await Promise.allSettled([
      fleet.builds.create(aBuild({ standingBy: 0, max: 1 })),
      fleet.builds.apply(aBuild({ standingBy: 0, max: 2 })),
    ])
    expect(created.status).toBe('rejected')
    expect(applied).toMatchObject({ value: { result: 'created' } })
  })

  it('changes a build that another writer has changed, and creates one that it has deleted', async () => {
    const { scene, fleet } = await opened()
    await fleet.builds.apply(aBuild({ standingBy: 0, max: 1 }))
    const edited = only(await scene.records.builds.list())
    await scene.records.builds.update({ ...edited.record, crashes: 4 }, edited.revision)
    const { build } = await fleet.builds.apply(aBuild({ standingBy: 0, max: 2 }))
    expect([build.status.crashesCount, build.spec.max]).toEqual([4, 2])
    const stored = only(await scene.records.builds.list())
    await scene.records.builds.delete(stored.record, stored.revision)
    expect((await fleet.builds.apply(aBuild({ standingBy: 0, max: 3 }))).result).toBe('created')
  })

  it('does not end a drain', async () => {
    const { fleet } = await opened()
    await fleet.builds.apply(aBuild({ standingBy: 0, max: 1 }))
    await fleet.builds.drain('arena')
    const { build } = await fleet.builds.apply(aBuild({ standingBy: 0, max: 2 }))
    expect(build.status.conditions?.map(({ type }) => type)).toEqual(['Draining'])
  })
})
