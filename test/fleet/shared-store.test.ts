/** External edits in a shared store: they take effect at once, and invalid ones are reported. */
import { type Build, type Fleet, FleetError, type Server, type Store, type Versioned } from 'gamekeeper'
import { type FaultyCall, faultyStore } from 'gamekeeper/testing'
import type { FleetEvent } from '../../src/contracts/events.js'
import type { GameServerBuild } from '../../src/rules/model/wire.js'
import { describe, expect, it } from 'vitest'
import { sharedMemory } from '../stores/shared-memory.js'
import {
  aBuild,
  ask,
  failureOf,
  only,
  session,
  stage,
  type StageOptions,
  statusOf,
  untilReady,
  watched,
} from './stage.js'

const ref = { namespace: 'default', name: 'arena' }
/** Too long to have an effect in these tests. */
const resyncIntervalMs = 3_600_000
/** Fields of the record of a server that is allocated to the first session. */
const allocated = {
  state: 'Active' as const,
  sessions: [{ id: session(1), initialPlayers: [], number: 1, startedAt: 0 }],
  startedSessions: 1,
  reachedActiveOn: 0,
}

async function scene(
  shown?: Store['display'],
  limits: StageOptions['limits'] = {},
  games: Pick<StageOptions, 'memory'> = {},
) {
  const memory = sharedMemory()
  const others = memory.open()
  const scene = stage({ ...games, limits: { resyncIntervalMs, ...limits } })
  const fleet = await scene.open({ store: { ...memory.open(), ...(shown && { display: shown }) } })
  const { clock } = scene
  const edit = async (change: (build: Build) => Build, of = ref) => {
    const found = await others.builds.get(of)
    if (!found) throw new Error('there is no such build')
    await others.builds.update(change(found.record), found.revision)
    await clock.advance(5_000)
  }
  const editSpec = (change: Partial<Build['spec']>, of = ref) =>
    edit((build) => ({ ...build, spec: { ...build.spec, ...change } }), of)
  return { ...scene, fleet, others, edit, editSpec, memory }
}

const conditionsOf = async (fleet: Fleet, build = 'arena') =>
  ((await statusOf(fleet, build)).conditions ?? []).map(({ type, message }) => `${type}: ${message}`)

/** A fleet whose build another writer has just deleted, and that gets no watch events. */
async function deletedUnnoticed() {
  const memory = sharedMemory()
  const { watch: _, ...own } = memory.open()
  const others = memory.open()
  const { clock, open } = stage({ limits: { resyncIntervalMs } })
  const fleet = await open({ store: own })
  await fleet.builds.create(aBuild({ standingBy: 1 }))
  await clock.advance(5_000)
  const found = await others.builds.get(ref)
  await others.builds.delete(ref, found?.revision ?? '')
  return { clock, fleet, others }
}

describe('a build edited in the store', () => {
  it('takes effect at once', async () => {
    const { clock, fleet, others } = await scene()
    const { metadata, spec } = aBuild({ standingBy: 2 })
    const known = { uid: 'by-hand', createdAt: 0, crashes: 0, countedCrashes: [], conditions: [] }
    await others.builds.create({ ...metadata, ...ref, spec, ...known })
    await clock.advance(5_000)
    expect(await statusOf(fleet)).toMatchObject({ currentStandingBy: 2 })
  })

  it('has metadata keys reported that GSDK clients use for their own settings, once', async () => {
    const { clock, edit, editSpec, eventsOf, others } = await scene()
    const { metadata, spec } = aBuild({ standingBy: 1, buildMetadata: { region: 'west' } })
    const known = { uid: 'by-hand', createdAt: 0, crashes: 0, countedCrashes: [], conditions: [] }
    await others.builds.create({ ...metadata, ...ref, spec, ...known })
    await clock.advance(5_000)
    const reported = () => eventsOf('MetadataKeysReserved').map(({ build, keys }) => [build.name, ...keys])
    expect(reported()).toEqual([['arena', 'region']])
    await edit((build) => ({ ...build, spec: { ...build.spec, standingBy: 2, buildMetadata: { region: 'east' } } }))
    expect(reported()).toHaveLength(1)
    await editSpec({ buildMetadata: { titleId: 'x' } })
    expect(reported()[1]).toEqual(['arena', 'titleId'])
    expect(reported()).toHaveLength(2)
  })

  it('keeps what its scaling policies have decided while its spec is invalid', async () => {
    const { clock, fleet, editSpec } = await scene()
    const scaling = { buffer: { min: 4 }, scaleDown: { delaySeconds: 0, perMinute: 100_000 } }
    await fleet.builds.create(aBuild({ standingBy: 0, max: 10, scaling }))
    await clock.advance(5_000)
    const schedule = { timeZone: 'Nowhere', windows: [{ start: 'never', end: 'never', min: 1 }] }
    await editSpec({ scaling: { schedule } })
    expect(await statusOf(fleet)).toMatchObject({
      currentStandingBy: 4,
      conditions: [{ type: 'Invalid', message: expect.stringContaining('spec.scaling.schedule.timeZone') }],
      scaling: { standingBy: 4, message: 'the spec is invalid, so that what was decided before holds' },
    })
    await clock.advance(600_000)
    expect(await statusOf(fleet)).toMatchObject({ currentStandingBy: 4 })
    await editSpec({ scaling: { ...scaling, buffer: { min: 2 } } })
    expect(await statusOf(fleet)).toMatchObject({ currentStandingBy: 2, scaling: { standingBy: 2, decider: 'buffer' } })
  })

  it('is overridden by a number that is set there, as kubectl scale does', async () => {
    const { fleet, editSpec } = await scene()
    await fleet.builds.create(aBuild({ standingBy: 0, max: 10, scaling: { buffer: { min: 4 } } }))
    await editSpec({ standingBy: 1 })
    expect(await statusOf(fleet)).toMatchObject({ currentStandingBy: 1, scaling: { decider: 'override' } })
    expect(await conditionsOf(fleet)).toEqual([
      expect.stringMatching(/^ScalingOverridden: standingBy was set from 0 to 1, which holds .* until /),
    ])
  })

  it('is scaled at once', async () => {
    const { fleet, editSpec } = await scene()
    await fleet.builds.create(aBuild({ standingBy: 1, max: 5 }))
    await editSpec({ standingBy: 4 })
    expect(await statusOf(fleet)).toMatchObject({ currentStandingBy: 4 })
  })

  it.each(['edited', 'deleted'])(
    'is %s although this host has not heard yet that it has created the build',
    async (how) => {
      const memory = sharedMemory()
      const others = memory.open()
      const { clock, open } = stage({ limits: { resyncIntervalMs } })
      const own = memory.open()
      let answer = () => {}
      const answered = new Promise<void>((resolve) => (answer = resolve))
      const create = async (build: Build) => {
        const revision = await own.builds.create(build)
        await answered
        return revision
      }
      const fleet = await open({ store: { ...own, builds: { ...own.builds, create } } })
      const creation = fleet.builds.create(aBuild({ standingBy: 0, max: 5 }))
      await clock.advance(100)
      const found = await others.builds.get(ref)
      if (!found) throw new Error('the build is not in the store')
      const { record, revision } = found
      if (how === 'deleted') await others.builds.delete(ref, revision)
      else await others.builds.update({ ...record, spec: { ...record.spec, standingBy: 4 } }, revision)
      await clock.advance(100)
      answer()
      await creation
      await clock.advance(5_000)
      if (how === 'deleted') expect(await fleet.builds.list()).toEqual([])
      else expect(await statusOf(fleet)).toMatchObject({ currentStandingBy: 4 })
    },
  )

  it('has standingBy clamped to max, and reports the clamping until corrected', async () => {
    const { fleet, editSpec, eventsOf } = await scene()
    await fleet.builds.create(aBuild({ standingBy: 1, max: 3 }))
    await editSpec({ standingBy: 9 })
    expect(await statusOf(fleet)).toMatchObject({ currentStandingBy: 3 })
    const told = 'standingBy 9 exceeds max 3; 3 is used'
    expect(await conditionsOf(fleet)).toEqual([`Clamped: ${told}`])
    expect(only(eventsOf('ConditionChanged'))).toMatchObject({ condition: 'Clamped', status: true, message: told })
    await editSpec({ max: 10 })
    expect(await conditionsOf(fleet)).toEqual([])
    expect(await statusOf(fleet)).toMatchObject({ currentStandingBy: 9 })
  })

  it('is no longer reported as clamped after a patch corrects it', async () => {
    const { clock, fleet, editSpec } = await scene()
    await fleet.builds.create(aBuild({ standingBy: 1, max: 2 }))
    await editSpec({ standingBy: 3 })
    expect(await conditionsOf(fleet)).toHaveLength(1)
    await fleet.builds.patch(ref, { standingBy: 2 })
    await clock.advance(5_000)
    expect(await conditionsOf(fleet)).toEqual([])
  })

  it('creates no servers and keeps existing ones while its spec is invalid, and continues once corrected', async () => {
    const { clock, fleet, editSpec, others } = await scene()
    await fleet.builds.create(aBuild({ standingBy: 2, max: 5 }))
    await clock.advance(5_000)
    await fleet.allocate(ask(1))
    await editSpec({ portsToExpose: [7777, 7777], standingBy: 4 })
    expect(await conditionsOf(fleet)).toEqual([
      'Invalid: spec.portsToExpose[1] must not repeat a value, but 7777 is listed twice',
    ])
    const before = await others.servers.list()
    expect(before.filter(({ record }) => record.sessions[0]).length).toBe(1)
    expect(before.length).toBeLessThanOrEqual(3)
    await editSpec({ portsToExpose: [7777] })
    expect(await conditionsOf(fleet)).toEqual([])
    expect(await statusOf(fleet)).toMatchObject({ currentStandingBy: 4, currentActive: 1 })
  })

  it('has a server allocated that a request names, while another build uses its buildID', async () => {
    const { clock, fleet, editSpec } = await scene()
    await fleet.builds.create(aBuild({ standingBy: 1 }))
    await fleet.builds.create(aBuild({ name: 'second', standingBy: 1 }))
    await clock.advance(5_000)
    const { buildID } = aBuild().spec
    await editSpec({ buildID }, { ...ref, name: 'second' })
    const server = only(await fleet.servers.list({ build: 'second' })).metadata
    expect(await fleet.allocate({ server, sessionID: session(1) })).toMatchObject({ server: { name: server.name } })
  })

  it('waits while another build uses its buildID', async () => {
    const { clock, fleet, others } = await scene()
    await fleet.builds.create(aBuild({ standingBy: 1 }))
    const { spec } = aBuild({ buildID: 'arena', standingBy: 1 })
    const known = { uid: 'second', createdAt: 0, crashes: 0, countedCrashes: [], conditions: [] }
    await others.builds.create({ ...ref, name: 'second', spec, ...known })
    await clock.advance(5_000)
    expect(await conditionsOf(fleet, 'second')).toEqual([
      'Invalid: spec.buildID "arena" is already used by build default/arena',
    ])
    expect(await statusOf(fleet, 'second')).toMatchObject({ currentStandingBy: 0, currentPending: 0 })
    await fleet.builds.delete('arena')
    await clock.advance(5_000)
    expect(await conditionsOf(fleet, 'second')).toEqual([])
    expect(await fleet.allocate(ask(1, { buildID: 'arena' }))).toMatchObject({ SessionID: session(1) })
  })

  it('has its invalid spec reported while it is Unhealthy', async () => {
    const { fleet, edit, editSpec } = await scene()
    await fleet.builds.create(aBuild({ standingBy: 1, max: 3, crashesToMarkUnhealthy: 1 }))
    await edit((build) => ({ ...build, crashes: 1 }))
    expect(await statusOf(fleet)).toMatchObject({ health: 'Unhealthy' })
    await editSpec({ standingBy: 9, portsToExpose: [7777, 7777] })
    expect(await conditionsOf(fleet)).toEqual([
      'Clamped: standingBy 9 exceeds max 3; 3 is used',
      'Invalid: spec.portsToExpose[1] must not repeat a value, but 7777 is listed twice',
    ])
    await editSpec({ standingBy: 1, portsToExpose: [7777] })
    expect(await conditionsOf(fleet)).toEqual([])
  })

  it('has its invalid spec reported even if the store rejects the first write', async () => {
    const memory = sharedMemory()
    const [own, others] = [memory.open(), memory.open()]
    let isAway = false
    const update: Store['builds']['update'] = (build, revision) =>
      isAway ? Promise.reject(new FleetError('unavailable', 'away')) : own.builds.update(build, revision)
    const { clock, open } = stage({ limits: { resyncIntervalMs: 30_000 } })
    const fleet = await open({ store: { ...own, builds: { ...own.builds, update } } })
    await fleet.builds.create(aBuild({ standingBy: 1, max: 3 }))
    await clock.advance(5_000)
    isAway = true
    const found = await others.builds.get(ref)
    if (!found) throw new Error('there is no such build')
    const { record, revision } = found
    await others.builds.update({ ...record, spec: { ...record.spec, portsToExpose: [7777, 7777] } }, revision)
    await clock.advance(5_000)
    isAway = false
    await clock.advance(60_000)
    expect(await conditionsOf(fleet)).toHaveLength(1)
  })

  it('starts nothing while its spec is invalid, not even Pending servers', async () => {
    const { clock, fleet, editSpec, faults, backend } = await scene(undefined, { maxConcurrentCreates: 1 })
    faults.backend = ({ method }) => (method === 'create' ? { kind: 'delay-reply', ms: 20_000 } : undefined)
    await fleet.builds.create(aBuild({ standingBy: 2 }))
    await clock.settle()
    await editSpec({ portsToExpose: [7777, 7777] })
    await clock.advance(60_000)
    expect(backend.servers().length).toBe(1)
    const pending = (await fleet.servers.list()).find(({ status }) => status.state === 'Pending')
    expect(pending?.status.message).toContain('spec.portsToExpose[1] must not repeat a value')
    await editSpec({ portsToExpose: [7777] })
    await clock.advance(60_000)
    expect(await statusOf(fleet)).toMatchObject({ currentStandingBy: 2 })
  })

  it('gets its buildID as soon as an edit removes that buildID from the other build', async () => {
    const { clock, fleet, editSpec, others } = await scene()
    await fleet.builds.create(aBuild({ standingBy: 1 }))
    const { spec } = aBuild({ buildID: 'arena', standingBy: 1 })
    const known = { uid: 'second', createdAt: 0, crashes: 0, countedCrashes: [], conditions: [] }
    await others.builds.create({ ...ref, name: 'second', spec, ...known })
    await clock.advance(5_000)
    expect(await conditionsOf(fleet, 'second')).toHaveLength(1)
    await editSpec({ buildID: 'arena-2' })
    expect(await conditionsOf(fleet, 'second')).toEqual([])
    expect(await statusOf(fleet, 'second')).toMatchObject({ currentStandingBy: 1 })
  })

  it('rejects callers that wait for its old buildID', async () => {
    const { clock, fleet, editSpec } = await scene()
    await fleet.builds.create(aBuild({ standingBy: 0, max: 0 }))
    const waiting = failureOf(fleet.allocate(ask(1), { waitMs: 60_000 }))
    await editSpec({ buildID: 'arena-2' })
    await clock.advance(60_000)
    expect(await waiting).toMatchObject({ code: 'not-found' })
  })

  it('is found under its new buildID and not under the old one', async () => {
    const { fleet, editSpec } = await scene()
    await fleet.builds.create(aBuild({ standingBy: 1 }))
    await editSpec({ buildID: 'arena-2' })
    expect((await failureOf(fleet.allocate(ask(1)))).code).toBe('not-found')
    expect(await fleet.allocate(ask(1, { buildID: 'arena-2' }))).toMatchObject({ SessionID: session(1) })
    await fleet.builds.create(aBuild({ name: 'other', buildID: 'arena', standingBy: 1 }))
  })

  it('is deleted from memory even if another writer deletes it while this host is writing it', async () => {
    const memory = sharedMemory()
    const [own, others] = [memory.open(), memory.open()]
    let answer = () => {}
    const answered = new Promise<void>((resolve) => (answer = resolve))
    const update: Store['builds']['update'] = async (build, of) => {
      const next = await own.builds.update(build, of)
      await answered
      return next
    }
    const { clock, open } = stage({ limits: { resyncIntervalMs } })
    const fleet = await open({ store: { ...own, builds: { ...own.builds, update } } })
    await fleet.builds.create(aBuild({ standingBy: 1 }))
    await clock.advance(5_000)
    const patched = fleet.builds.patch(ref, { standingBy: 2 })
    await clock.advance(1_000)
    const found = await others.builds.get(ref)
    expect(found?.record.spec.standingBy).toBe(2)
    await others.builds.delete(ref, found?.revision ?? '')
    await clock.advance(1_000)
    answer()
    await patched
    await clock.advance(60_000)
    expect([await fleet.builds.list(), await others.servers.list()]).toEqual([[], []])
  })

  it('is deleted from memory as soon as a write finds its record missing, without a watch event', async () => {
    const { clock, fleet, others } = await deletedUnnoticed()
    expect(await failureOf(fleet.builds.patch(ref, { standingBy: 2 }))).toMatchObject({ code: 'not-found' })
    await clock.advance(60_000)
    expect([await fleet.builds.list(), await others.servers.list()]).toEqual([[], []])
  })

  it('is replaced in memory by one that was created under its name, as soon as a write finds its record missing', async () => {
    const { clock, fleet, others } = await deletedUnnoticed()
    const { metadata, spec } = aBuild({ standingBy: 3 })
    const known = { uid: 'by-hand', createdAt: 0, crashes: 0, countedCrashes: [], conditions: [] }
    await others.builds.create({ ...metadata, ...ref, spec, ...known })
    expect(await failureOf(fleet.builds.patch(ref, { standingBy: 2 }))).toMatchObject({ code: 'not-found' })
    await clock.advance(60_000)
    expect(await statusOf(fleet)).toMatchObject({ currentStandingBy: 3 })
  })

  it('terminates its servers when it is deleted', async () => {
    const { clock, fleet, others, backend } = await scene()
    await fleet.builds.create(aBuild({ standingBy: 2 }))
    await clock.advance(5_000)
    await fleet.allocate(ask(1))
    const found = await others.builds.get(ref)
    await others.builds.delete(ref, found?.revision ?? '')
    await clock.advance(60_000)
    expect([await fleet.builds.list(), await fleet.servers.list(), backend.servers()]).toEqual([[], [], []])
    expect(await others.servers.list()).toEqual([])
  })
})

describe('a server record changed by another writer', () => {
  it('terminates and replaces the server if the record is deleted', async () => {
    const here = await scene()
    const { clock, fleet, others, eventsOf } = here
    await fleet.builds.create(aBuild({ standingBy: 1, max: 2 }))
    await untilReady(here, fleet, 1)
    const { record, revision } = only(await others.servers.list())
    await others.servers.delete(record, revision)
    await clock.advance(60_000)
    expect(only(eventsOf('ServerEnding'))).toMatchObject({ reason: 'Deleted', crash: false })
    const next = only(await others.servers.list()).record
    expect([next.state, next.name === record.name]).toEqual(['StandingBy', false])
  })

  it('terminates the server even if the store cannot be read when the record is deleted', async () => {
    const memory = sharedMemory()
    const [own, others] = [memory.open(), memory.open()]
    let isAway = false
    const get: Store['servers']['get'] = (of) =>
      isAway ? Promise.reject(new FleetError('unavailable', 'away')) : own.servers.get(of)
    const { clock, eventsOf, open } = stage({ limits: { resyncIntervalMs: 30_000 } })
    const fleet = await open({ store: { ...own, servers: { ...own.servers, get } } })
    await fleet.builds.create(aBuild({ standingBy: 1, max: 1 }))
    await clock.advance(5_000)
    await fleet.allocate(ask(1))
    await clock.advance(5_000)
    const { record, revision } = only(await others.servers.list())
    isAway = true
    await others.servers.delete(record, revision)
    await clock.advance(5_000)
    isAway = false
    await clock.advance(60_000)
    expect(only(eventsOf('ServerEnding'))).toMatchObject({ server: { name: record.name }, reason: 'Deleted' })
  })

  describe('is deleted again, once, when an earlier write takes effect late:', () => {
    async function lateScene(delayMs: Readonly<Record<string, number>> = {}) {
      const memory = sharedMemory()
      const others = memory.open()
      const written: Server[] = []
      const ignored = () => {}
      const changed = ({ record }: Versioned<Server>) => void written.push(record)
      others.watch?.({
        builds: { listed: ignored, changed: ignored, gone: ignored },
        servers: { listed: ignored, changed, gone: ignored },
      })
      const scene = stage({ limits: { resyncIntervalMs } })
      const calls = ({ method }: FaultyCall) => {
        const ms = delayMs[method]
        return ms === undefined ? undefined : { kind: 'delay-reply' as const, ms }
      }
      const fleet = await scene.open({ store: faultyStore(memory.open(), { clock: scene.clock, calls }) })
      await fleet.builds.create(aBuild({ standingBy: 1, max: 2 }))
      await scene.clock.advance(5_000)
      return { ...scene, fleet, others, written }
    }

    const moments = [
      ['before its deletion is answered', 500, 200],
      ['and is being read when its deletion is answered', 950, 200],
      ['and its read is slow', 500, 700],
      ['after its deletion is answered', 1_500, 200],
    ] as const
    const writes = [
      ['its first record', 0],
      ['its last', -1],
    ] as const
    it.each(moments.flatMap((moment) => writes.map((write) => [...write, ...moment] as const)))(
      '%s (%i), %s',
      async (_, index, __, lateMs, getMs) => {
        const { clock, fleet, others, written, eventsOf } = await lateScene({
          'servers.delete': 1_000,
          'servers.get': getMs,
        })
        await fleet.builds.patch(ref, { standingBy: 0 })
        await clock.until(async () => (await others.servers.list()).length === 0)
        await clock.advance(lateMs)
        const late = written.at(index)
        expect(late?.state).toBe(index === 0 ? 'Pending' : 'Terminating')
        if (late) await others.servers.create(late)
        await clock.advance(60_000)
        expect(await others.servers.list()).toEqual([])
        expect(await fleet.servers.list()).toEqual([])
        expect(eventsOf('ServerRemoved').length).toBeLessThanOrEqual(2)
      },
    )

    it('and its build needs servers: a process that outlives the server would get the session of the next', async () => {
      const { backend, clock, fleet, others, written, eventsOf } = await lateScene()
      const first = only(backend.servers())
      first.exit(1)
      await clock.until(() => Promise.resolve(eventsOf('ServerRemoved').length === 1))
      const late = written.at(0)
      expect(late).toMatchObject({ state: 'Pending', name: first.ref.name })
      if (late) await others.servers.create(late)
      await clock.advance(60_000)
      const names = (await others.servers.list()).map((server) => server.record.name)
      expect(names).toHaveLength(1)
      expect(names).not.toContain(first.ref.name)
      expect(eventsOf('ServerEnding').at(-1)).toMatchObject({ server: { name: first.ref.name }, crash: false })
      expect(only(await fleet.servers.list()).status.state).toBe('StandingBy')
    })

    it('while the server terminates because its record was deleted', async () => {
      const { clock, faults, fleet, others, written } = await lateScene()
      faults.backend = ({ method }) => (method === 'destroy' ? { kind: 'delay-reply', ms: 10_000 } : undefined)
      const { record, revision } = only(await others.servers.list())
      await others.servers.delete(record, revision)
      await clock.advance(1_000)
      const late = written.at(0)
      if (late) await others.servers.create(late)
      await clock.advance(100_000)
      const names = (await others.servers.list()).map((server) => server.record.name)
      expect(names).toEqual((await fleet.servers.list()).map((server) => server.metadata.name))
      expect(names).not.toContain(record.name)
    })
  })

  it('is not reserved by a late write whose time is over', async () => {
    const { clock, eventsOf, fleet, others } = await scene()
    await fleet.builds.create(aBuild({ standingBy: 1, max: 1 }))
    await clock.advance(60_000)
    const { record, revision } = only(await others.servers.list())
    await others.servers.update({ ...record, reservedUntil: clock.now() - 10_000 }, revision)
    await clock.advance(5_000)
    expect(eventsOf('ReservationLapsed')).toEqual([])
    expect(only(await others.servers.list()).record.reservedUntil).toBeUndefined()
  })

  it('does not prevent the allocation of the server', async () => {
    const { clock, fleet, others } = await scene()
    await fleet.builds.create(aBuild({ standingBy: 1, max: 1 }))
    await clock.advance(5_000)
    const { record, revision } = only(await others.servers.list())
    await others.servers.update(record, revision)
    await clock.advance(5_000)
    expect(await fleet.allocate(ask(1))).toMatchObject({ SessionID: session(1) })
    expect(only(await others.servers.list()).record.sessions[0]?.id).toBe(session(1))
  })

  it('gives a waiting caller the server that another host allocated to its session, and no second server', async () => {
    const { clock, backend, fleet, others } = await scene(undefined, {}, { memory: { script: 'manual' } })
    await fleet.builds.create(aBuild({ standingBy: 1, max: 2 }))
    await clock.advance(1_000)
    const [first] = backend.servers()
    first?.ready()
    await clock.settle()
    first?.unhealthy()
    const call = watched(fleet.allocate(ask(1), { waitMs: 30_000 }))
    await clock.advance(500)
    expect(call.outcome()).toBe('pending')
    const { record, revision } = only(
      (await others.servers.list()).filter((server) => server.record.name === first?.ref.name),
    )
    await others.servers.update({ ...record, ...allocated }, revision)
    await clock.advance(500)
    for (const server of backend.servers()) if (server !== first) server.ready()
    await clock.advance(1_000)
    expect(call.outcome()).toMatchObject({ value: { SessionID: session(1) } })
    const holders = (await others.servers.list()).filter((server) => server.record.sessions[0]?.id === session(1))
    expect(holders.map((server) => server.record.name)).toEqual([record.name])
  })

  it('gives a waiting caller a server that another host created and allocated to its session', async () => {
    const { clock, backend, fleet, others } = await scene(undefined, {}, { memory: { script: 'manual' } })
    await fleet.builds.create(aBuild({ standingBy: 1, max: 3 }))
    await clock.advance(1_000)
    const call = watched(fleet.allocate(ask(1), { waitMs: 30_000 }))
    await clock.advance(500)
    const { record } = only((await others.servers.list()).slice(0, 1))
    const made = { name: 'arena-late1', uid: 'late', token: 'late', address: '127.0.0.1', ports: [] }
    await others.servers.create({ ...record, ...made, ...allocated })
    await clock.settle()
    expect(call.outcome()).toMatchObject({ value: { SessionID: session(1) } })
    for (const server of backend.servers()) server.ready()
    await clock.advance(100)
    const holders = (await others.servers.list()).filter((server) => server.record.sessions[0]?.id === session(1))
    expect(holders.map((server) => server.record.name)).toEqual(['arena-late1'])
  })

  it('gives a waiting caller no second server if another host has given its session one that has ended already', async () => {
    const { clock, backend, fleet, others } = await scene(undefined, {}, { memory: { script: 'manual' } })
    await fleet.builds.create(aBuild({ standingBy: 1, max: 2 }))
    await clock.advance(1_000)
    const [first] = backend.servers()
    first?.ready()
    await clock.settle()
    first?.unhealthy()
    const call = watched(fleet.allocate(ask(1), { waitMs: 30_000 }))
    await clock.advance(500)
    const { record, revision } = only(
      (await others.servers.list()).filter((server) => server.record.name === first?.ref.name),
    )
    const ending = { reason: 'Exited' as const, message: 'the match is over', crash: false, at: clock.now() }
    await others.servers.update({ ...record, ...allocated, state: 'Terminating', ending }, revision)
    await clock.advance(100)
    for (const server of backend.servers()) if (server !== first) server.ready()
    await clock.advance(1_000)
    expect(call.outcome()).toMatchObject({ value: { SessionID: session(1) } })
    const holders = (await others.servers.list()).filter((server) => server.record.sessions[0]?.id === session(1))
    expect(holders.map((server) => server.record.name).filter((name) => name !== record.name)).toEqual([])
  })

  it('does not shorten the back-off of rejected starts', async () => {
    const { clock, faults, fleet, others, calls } = await scene()
    faults.backend = ({ method }) => (method === 'create' ? { kind: 'refuse' } : undefined)
    await fleet.builds.create(aBuild({ standingBy: 1, max: 1 }))
    for (let second = 0; second < 120; second++) {
      await clock.advance(1_000)
      const { record, revision } = only(await others.servers.list())
      await others.servers.update(record, revision)
    }
    expect(calls.filter(({ method }) => method === 'create').length).toBeLessThanOrEqual(9)
  })

  it('is overwritten with the fleet’s state if it is inconsistent', async () => {
    const { clock, fleet, others } = await scene()
    await fleet.builds.create(aBuild({ standingBy: 1, max: 1 }))
    await clock.advance(5_000)
    await fleet.allocate(ask(1))
    await clock.advance(5_000)
    const { record, revision } = only(await others.servers.list())
    await others.servers.update({ ...record, address: '203.0.113.99' }, revision)
    await clock.advance(5_000)
    expect(only(await others.servers.list()).record).toEqual(record)
  })
})

describe('the display callbacks of a store', () => {
  it('gets the counts of builds at most a few times a second, and every event', async () => {
    const shown: GameServerBuild['status'][] = []
    const events: FleetEvent['type'][] = []
    const display = {
      build: (_: unknown, status: GameServerBuild['status']) => void shown.push(status),
      event: ({ type }: FleetEvent) => void events.push(type),
    }
    const { clock, fleet } = await scene(display)
    await fleet.builds.create(aBuild({ standingBy: 20, max: 30 }))
    await clock.advance(5_000)
    expect(shown.at(-1)).toMatchObject({ currentStandingBy: 20, currentStandingByReadyDesired: '20/20' })
    expect(shown.length).toBeLessThanOrEqual(6)
    const before = shown.length
    await clock.advance(600_000)
    expect(shown).toHaveLength(before)
    await fleet.allocate(ask(1))
    await clock.advance(1_000)
    expect(shown.at(-1)).toMatchObject({ currentActive: 1 })
    expect(new Set(events)).toContain('Allocated')
  })
})

it('an edit of a build is taken from the watch, without reading the build', async () => {
  const memory = sharedMemory()
  const [own, others] = [memory.open(), memory.open()]
  let reads = 0
  const get: Store['builds']['get'] = (of) => (reads++, own.builds.get(of))
  const { clock, open } = stage({ limits: { resyncIntervalMs } })
  const fleet = await open({ store: { ...own, builds: { ...own.builds, get } } })
  await fleet.builds.create(aBuild({ standingBy: 1, max: 5 }))
  await clock.advance(5_000)
  const { record, revision } = only(await others.builds.list())
  reads = 0
  await others.builds.update({ ...record, spec: { ...record.spec, standingBy: 4 } }, revision)
  await clock.advance(5_000)
  expect([(await statusOf(fleet)).currentStandingBy, reads]).toEqual([4, 0])
  await fleet.builds.patch(ref, { standingBy: 2 })
  await clock.advance(5_000)
  expect([(await statusOf(fleet)).currentStandingBy, reads]).toEqual([2, 0])
})

it('a resync does not list a store that provides a watch', async () => {
  const { clock, fleet, memory } = await scene()
  await fleet.builds.create(aBuild({ standingBy: 1 }))
  let lists = 0
  const store = memory.open()
  const counted = { ...store.servers, list: () => (lists++, store.servers.list()) }
  await fleet.close()
  const next = await stageWith({ ...store, servers: counted }, clock)
  expect(lists).toBe(1)
  await clock.advance(3 * 60_000)
  expect(lists).toBe(1)
  await next.close()
})

async function stageWith(store: Store, clock: ReturnType<typeof stage>['clock']): Promise<Fleet> {
  const scene = stage()
  return scene.open({ store, clock })
}
