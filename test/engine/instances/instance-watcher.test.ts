/** The instance watcher: events, lists, lost events and orphans. */
import type { Backend, BackendListener, Instance } from 'gamekeeper'
import type { InstanceOrigin } from '../../../src/contracts/backend.js'
import { FleetError } from 'gamekeeper'
import { describe, expect, it } from 'vitest'
import type { ServerEntry } from '../../../src/engine/state/entries.js'
import { InstanceWatcher } from '../../../src/engine/instances/instance-watcher.js'
import { memoryStore } from '../../../src/stores/memory.js'
import { aServerRecord, standsBy, stock, contextOf } from '../support.js'

/** A backend whose list calls are answered by the test. */
function manualBackend() {
  const lists: { answer(instances: readonly Instance[]): void; fail(error: Error): void }[] = []
  const destroyed: string[] = []
  let listener: BackendListener | undefined
  let failing: Error | undefined
  const backend: Backend = {
    name: 'manualBackend',
    capabilities: { template: 'pod', agent: false },
    defaultStore: { kind: 'memory' },
    create: () => Promise.reject(new Error('not here')),
    destroy: (ref, uid) => {
      if (failing) return Promise.reject(failing)
      destroyed.push(`${ref.name} ${uid}`)
      return Promise.resolve()
    },
    list: () => new Promise((answer, fail) => void lists.push({ answer, fail })),
    watch(given) {
      listener = given
      return () => (listener = undefined)
    },
    close: () => Promise.resolve(),
  }
  return {
    backend,
    lists,
    destroyed,
    tell: (news: (to: BackendListener) => void) => listener && news(listener),
    isWatched: () => listener !== undefined,
    failDestroy: (error: Error | undefined) => void (failing = error),
  }
}

function anInstance(name: string, more: Partial<Instance> = {}): Instance {
  const where = { address: '203.0.113.9', node: 'north', ports: [{ container: 7777, public: 10_001 }] }
  return { ref: { namespace: 'default', name }, uid: `uid-of-${name}`, phase: 'running', ...where, ...more }
}

/** A watcher that has read its first list, with a running instance for each server past Pending. */
async function scene(
  servers: Readonly<Record<string, Parameters<ReturnType<typeof stock>['add']>[1]>> = {},
  find?: Backend['find'],
) {
  const { inventory, add, changes, build } = stock()
  const backend = manualBackend()
  const store = memoryStore()
  const { ctx, clock, events, asked } = contextOf(inventory, {
    ...{ backend: { ...backend.backend, ...(find && { find }) }, store },
  })
  const running: string[] = []
  const adopted: string[] = []
  const recovered: InstanceOrigin[] = []
  const watch = new InstanceWatcher(ctx, {
    starting: () => {},
    running: (entry) => void running.push(entry.record.name),
    heartbeat: () => ({ operation: 'Continue', nextHeartbeatIntervalMs: 1_000 }),
    parkHeartbeat: () => undefined,
    startBlocked: () => {},
    recover: (_, origin) => recovered.push(origin) > 0,
    adopt: ({ record, revision }) => {
      adopted.push(record.name)
      inventory.addServer(build, record, revision)
    },
    maintenance: { report() {} },
  })
  const entries = new Map<string, ServerEntry>()
  for (const [name, more] of Object.entries(servers)) entries.set(name, add(name, more))
  const started = watch.start()
  const ran = Object.entries(servers).filter(([, more]) => more?.state !== undefined && more.state !== 'Pending')
  backend.lists.shift()?.answer(ran.map(([name]) => anInstance(name)))
  await started
  const entry = (name: string): ServerEntry => {
    const found = entries.get(name)
    if (!found) throw new Error(`no ${name}`)
    return found
  }
  /** Responds to the list call in progress. */
  const listed = async (...instances: readonly Instance[]) => {
    backend.lists.shift()?.answer(instances)
    await clock.settle()
  }
  const seen = { events, asked, changes, running, adopted, recovered }
  return { ...backend, ...seen, watch, clock, store, build, inventory, entry, listed }
}

const starts = { state: 'Initializing', health: 'Healthy' } as const
const plays = {
  ...standsBy,
  reachedStandingByOn: 1,
  state: 'Active',
  sessions: [{ id: 's', initialPlayers: [], number: 1, startedAt: 0 }],
  startedSessions: 1,
} as const

describe('an instance event', () => {
  it('marks the server as running and sets its address and node', async () => {
    const { tell, entry, running } = await scene({ one: {} })
    tell((to) => to.changed(anInstance('one', { phase: 'pending', reason: 'pulling its image', ports: [] })))
    expect([entry('one').record.state, entry('one').pendingReason, running]).toEqual([
      'Pending',
      'pulling its image',
      [],
    ])
    tell((to) => to.changed(anInstance('one')))
    expect(entry('one').record).toMatchObject({ state: 'Initializing', address: '203.0.113.9', node: 'north' })
    expect([entry('one').pendingReason, running]).toEqual([undefined, ['one']])
  })

  it('says nothing of a server that was heard already: the report of a slow kubelet comes late', async () => {
    const { tell, entry } = await scene({ one: standsBy })
    const late = { phase: 'pending', reason: 'starting on north', blocked: true } as const
    tell((to) => to.changed(anInstance('one', late)))
    expect([entry('one').record.state, entry('one').pendingReason]).toEqual(['StandingBy', undefined])
  })

  it('changes nothing when it is repeated', async () => {
    const { tell, changes, running } = await scene({ one: starts })
    const before = changes.length
    tell((to) => to.changed(anInstance('one')))
    tell((to) => to.changed(anInstance('one')))
    expect([changes.length - before, running]).toEqual([0, ['one']])
  })

  it('does not affect a later server with the same name', async () => {
    const { tell, entry } = await scene({ one: starts })
    tell((to) => to.changed(anInstance('one', { uid: 'earlier', phase: 'exited', exitCode: 1 })))
    tell((to) => to.gone({ namespace: 'default', name: 'one' }, 'earlier'))
    expect(entry('one').record.state).toBe('Initializing')
  })

  it.each([
    ['exited with 0 before it was ready', { exitCode: 0 }, { reason: 'Exited', crash: true }],
    ['exited with 3', { exitCode: 3 }, { reason: 'NonZeroExit', crash: true }],
    ['ended for an unknown reason', {}, { reason: 'Gone', crash: true }],
  ])('terminates a server whose process %s', async (_, how, ending) => {
    const { tell, entry, asked } = await scene({ one: starts })
    tell((to) => to.changed(anInstance('one', { phase: 'exited', ...how })))
    expect(entry('one').record).toMatchObject({ state: 'Terminating', ending })
    expect(asked).toContain('one')
  })

  it('terminates a server whose instance disappeared, and counts a crash unless the server was Active', async () => {
    const { tell, entry } = await scene({ one: standsBy, two: plays })
    for (const name of ['one', 'two']) tell((to) => to.gone({ namespace: 'default', name }, `uid-of-${name}`))
    expect(entry('one').record.ending).toMatchObject({ reason: 'Gone', crash: true })
    expect(entry('two').record.ending).toMatchObject({ reason: 'Gone', crash: false })
  })

  it('terminates rather than recreates a server whose instance disappeared before it ran', async () => {
    const { tell, entry } = await scene({ one: {} })
    tell((to) => to.changed(anInstance('one', { phase: 'pending' })))
    tell((to) => to.gone({ namespace: 'default', name: 'one' }, 'uid-of-one'))
    expect(entry('one').record.ending).toMatchObject({ reason: 'Gone', crash: true })
  })

  it('is ignored after the watcher is stopped', async () => {
    const { watch, tell, entry, isWatched } = await scene({ one: starts })
    watch.stop()
    tell((to) => to.changed(anInstance('one', { phase: 'exited', exitCode: 1 })))
    expect([entry('one').record.state, isWatched()]).toEqual(['Initializing', false])
  })
})

describe('a list of instances', () => {
  it('is read at startup, and servers whose instances exited while no host was running are terminated', async () => {
    const { inventory, add } = stock()
    const { backend, lists } = manualBackend()
    const { ctx } = contextOf(inventory, { backend })
    const gone = add('one', standsBy)
    const exited = add('two', plays)
    const asleep = add('three', {})
    const watch = new InstanceWatcher(ctx, {
      starting: () => {},
      running: () => {},
      heartbeat: () => ({ operation: 'Continue', nextHeartbeatIntervalMs: 1_000 }),
      parkHeartbeat: () => undefined,
      startBlocked: () => {},
      adopt: () => {},
      recover: () => false,
      maintenance: { report() {} },
    })
    const started = watch.start()
    lists.shift()?.answer([anInstance('two', { phase: 'exited', exitCode: 0 })])
    await started
    expect(gone.record.ending).toMatchObject({ reason: 'Gone', crash: true })
    expect(exited.record.ending).toMatchObject({ reason: 'Exited', crash: false })
    expect(asleep.record.state).toBe('Pending')
  })

  it('makes startup fail if it cannot be read', async () => {
    const { inventory } = stock()
    const { backend, lists } = manualBackend()
    const { ctx } = contextOf(inventory, { backend })
    const watch = new InstanceWatcher(ctx, {
      starting: () => {},
      running: () => {},
      heartbeat: () => ({ operation: 'Continue', nextHeartbeatIntervalMs: 1_000 }),
      parkHeartbeat: () => undefined,
      startBlocked: () => {},
      adopt: () => {},
      recover: () => false,
      maintenance: { report() {} },
    })
    const started = watch.start()
    lists.shift()?.fail(new Error('no daemon'))
    await expect(started).rejects.toThrow('no daemon')
  })

  it('is read again when events may have been lost, and every minute', async () => {
    const { tell, clock, lists, listed } = await scene()
    expect(lists.length).toBe(0)
    tell((to) => to.resync())
    expect(lists.length).toBe(1)
    await listed()
    await clock.advance(59_999)
    expect(lists.length).toBe(0)
    await clock.advance(1)
    expect(lists.length).toBe(1)
  })

  it('is read again if events are lost while it is being read', async () => {
    const { tell, lists, listed } = await scene()
    for (let i = 0; i < 5; i++) tell((to) => to.resync())
    expect(lists.length).toBe(1)
    await listed()
    expect(lists.length).toBe(1)
    await listed()
    expect(lists.length).toBe(0)
  })

  it('does not override an event that arrives while it is being read', async () => {
    const { tell, entry, listed } = await scene({ one: {}, two: starts })
    tell((to) => to.resync())
    tell((to) => to.changed(anInstance('one')))
    tell((to) => to.changed(anInstance('two', { address: '203.0.113.77' })))
    await listed(anInstance('two'))
    expect(entry('one').record.state).toBe('Initializing')
    expect(entry('two').record.address).toBe('203.0.113.77')
  })

  it('does not restore an instance that disappears while it is being read', async () => {
    const { tell, entry, listed } = await scene({ one: starts })
    tell((to) => to.resync())
    tell((to) => to.gone({ namespace: 'default', name: 'one' }, 'uid-of-one'))
    await listed(anInstance('one'))
    expect([entry('one').record.state, entry('one').instance]).toEqual(['Terminating', undefined])
  })

  it('does not terminate a server that sends its first heartbeat while it is being read', async () => {
    const { inventory, tell, entry, listed } = await scene({ one: {} })
    tell((to) => to.resync())
    inventory.update(entry('one'), { ...entry('one').record, ...starts })
    await listed()
    expect(entry('one').record.state).toBe('Initializing')
  })

  it('terminates a server whose exit event was lost', async () => {
    const { tell, entry, listed } = await scene({ one: starts, two: starts })
    tell((to) => to.resync())
    await listed(anInstance('two', { phase: 'exited', exitCode: 1 }))
    expect(entry('one').record.ending).toMatchObject({ reason: 'Gone' })
    expect(entry('two').record.ending).toMatchObject({ reason: 'NonZeroExit' })
  })

  it('does not affect a server that has not been created yet', async () => {
    const { tell, entry, listed } = await scene({ one: {} })
    tell((to) => to.resync())
    await listed()
    expect(entry('one').record.state).toBe('Pending')
  })

  it('is retried with back-off after a failure, and the failure and the recovery are each reported once', async () => {
    const { tell, clock, lists, listed, events } = await scene()
    const named = () => events.map(({ type }) => type)
    tell((to) => to.resync())
    for (const waitMs of [1_000, 2_000, 4_000]) {
      lists.shift()?.fail(new Error('no daemon'))
      await clock.advance(waitMs - 1)
      expect(lists.length).toBe(0)
      await clock.advance(1)
      expect(lists.length).toBe(1)
    }
    expect(named()).toEqual(['BackendUnavailable'])
    await listed()
    expect(named()).toEqual(['BackendUnavailable', 'BackendRecovered'])
  })

  it('times out and is retried if the backend never responds', async () => {
    const { tell, clock, lists, events } = await scene()
    tell((to) => to.resync())
    await clock.advance(120_000)
    expect(events).toMatchObject([{ type: 'BackendUnavailable' }])
    await clock.advance(1_000)
    expect(lists.length).toBe(2)
  })

  it('leaves no timer behind when the watcher is stopped', async () => {
    const { watch, tell, clock, listed } = await scene()
    tell((to) => to.resync())
    watch.stop()
    await listed()
    expect(clock.pending).toBe(0)
  })
})

describe('an instance missing from a list', () => {
  it.each([
    ['exists if the lookup finds it', () => Promise.resolve(anInstance('one')), 'Active'],
    ['is gone if the lookup does not find it', () => Promise.resolve(undefined), 'Terminating'],
    ['is unchanged if the lookup fails', () => Promise.reject(new Error('no answer')), 'Active'],
    ['is unchanged if the lookup is never answered', () => new Promise<undefined>(() => {}), 'Active'],
  ])('%s', async (_, find, state) => {
    const known: unknown[] = []
    const { tell, entry, clock, lists, listed } = await scene({ one: plays }, (instance) => {
      known.push(instance)
      return find()
    })
    tell((to) => to.resync())
    await listed()
    await clock.advance(120_000)
    expect(entry('one').record.state).toBe(state)
    expect(known[0]).toEqual({
      ref: { namespace: 'default', name: 'one' },
      uid: 'uid-of-one',
      ports: anInstance('one').ports,
    })
    // The next list is read on schedule.
    await clock.advance(60_000)
    expect(lists.length).toBe(1)
  })

  it('has the state reported by an event that arrives during the lookup', async () => {
    const { tell, entry, clock, listed } = await scene({ one: plays }, async () => {
      tell((to) => to.changed(anInstance('one', { phase: 'exited', exitCode: 0 })))
      return anInstance('one')
    })
    tell((to) => to.resync())
    await listed()
    await clock.settle()
    expect(entry('one').record.ending).toMatchObject({ reason: 'Exited' })
  })
})

describe('an orphan', () => {
  const orphan = anInstance('stranger')

  it('is reported once, and destroyed after ten seconds if it has no match', async () => {
    const { tell, watch, clock, events, destroyed } = await scene()
    tell((to) => to.changed(orphan))
    tell((to) => to.changed(orphan))
    await clock.settle()
    expect(events).toMatchObject([{ type: 'OrphanFound', instance: orphan.ref }])
    await clock.advance(9_999)
    watch.destroyOrphans()
    await clock.settle()
    expect(destroyed).toEqual([])
    await clock.advance(1)
    watch.destroyOrphans()
    await clock.settle()
    expect(destroyed).toEqual(['stranger uid-of-stranger'])
  })

  it('is destroyed at once if it has exited', async () => {
    const { tell, watch, clock, destroyed } = await scene()
    tell((to) => to.changed(anInstance('stranger', { phase: 'exited', exitCode: 0 })))
    watch.destroyOrphans()
    await clock.settle()
    expect(destroyed).toEqual(['stranger uid-of-stranger'])
  })

  it('is kept while it reports a match', async () => {
    const { tell, watch, clock, destroyed } = await scene()
    tell((to) => to.changed(orphan))
    for (let second = 0; second < 60; second++) {
      await clock.advance(1_000)
      expect(watch.unknownHeartbeat('stranger.secret', 'Active')).toBe('Continue')
      watch.destroyOrphans()
    }
    await clock.settle()
    expect(destroyed).toEqual([])
    expect(watch.unknownHeartbeat('stranger.secret', 'StandingBy')).toBe('Terminate')
  })

  it('is kept if it reports a match while it is about to be destroyed', async () => {
    const { tell, watch, clock, destroyed } = await scene()
    tell((to) => to.changed(orphan))
    await clock.advance(10_000)
    watch.destroyOrphans()
    expect(watch.unknownHeartbeat('stranger.secret', 'Active')).toBe('Continue')
    await clock.settle()
    expect(destroyed).toEqual([])
    await clock.advance(10_000)
    watch.destroyOrphans()
    await clock.settle()
    expect(destroyed).toEqual(['stranger uid-of-stranger'])
  })

  it('gets its full timeout again after the host was suspended', async () => {
    const { tell, watch, clock, destroyed } = await scene()
    tell((to) => to.changed(orphan))
    watch.unknownHeartbeat('stranger.secret', 'Active')
    await clock.suspend(3_600_000)
    watch.restartTimers()
    watch.destroyOrphans()
    await clock.settle()
    expect(destroyed).toEqual([])
  })

  it('is recovered if it tells which server it is, and its game reports a match', async () => {
    const { tell, watch, recovered } = await scene()
    const origin = { build: { namespace: 'default', name: 'arena', uid: 'uid' }, sessionHostId: 'stranger.token' }
    tell((to) => to.changed({ ...orphan, origin }))
    expect(watch.unknownHeartbeat('stranger.token', 'StandingBy')).toBe('Terminate')
    expect(watch.unknownHeartbeat('stranger.another', 'Active')).toBe('Terminate')
    expect(recovered).toEqual([])
    expect(watch.unknownHeartbeat('stranger.token', 'Active')).toBe('Continue')
    expect(recovered).toEqual([origin])
  })

  it('is adopted if another host has written its record in the meantime', async () => {
    const { tell, watch, clock, store, build, destroyed, adopted, inventory } = await scene()
    tell((to) => to.changed(orphan))
    await store.servers.create(aServerRecord(build.record, 'stranger', { uid: orphan.uid }))
    await clock.advance(10_000)
    watch.destroyOrphans()
    await clock.settle()
    expect([destroyed, adopted]).toEqual([[], ['stranger']])
    expect(inventory.servers.get('default/stranger')?.record).toMatchObject({ state: 'Initializing' })
  })

  it('is destroyed on a retry if the first destroy fails', async () => {
    const { tell, watch, clock, destroyed, failDestroy } = await scene()
    failDestroy(new FleetError('unavailable', 'away'))
    tell((to) => to.changed(orphan))
    await clock.advance(10_000)
    watch.destroyOrphans()
    await clock.settle()
    failDestroy(undefined)
    watch.destroyOrphans()
    await clock.settle()
    expect(destroyed).toEqual([])
    await clock.advance(10_000)
    watch.destroyOrphans()
    await clock.settle()
    expect(destroyed).toEqual(['stranger uid-of-stranger'])
  })

  it('is forgotten once it no longer exists', async () => {
    const { tell, watch, clock, listed, destroyed } = await scene()
    tell((to) => to.changed(orphan))
    tell((to) => to.gone(orphan.ref, orphan.uid))
    tell((to) => to.changed(anInstance('other')))
    tell((to) => to.resync())
    await listed()
    await clock.advance(20_000)
    watch.destroyOrphans()
    await clock.settle()
    expect(destroyed).toEqual([])
  })
})

describe('a game with an unknown id', () => {
  it('gets Terminate, whether or not a server has its name', async () => {
    const { watch, inventory, build } = await scene()
    const entry = inventory.addServer(build, aServerRecord(build.record, 'lobby', { state: 'StandingBy' }), '1')
    for (const state of ['StandingBy', 'Active', 'Terminating'] as const) {
      inventory.update(entry, { ...entry.record, state })
      for (const name of ['lobby', 'nobody']) {
        expect(watch.unknownHeartbeat(`${name}.lost`, 'Active')).toBe('Terminate')
        expect(watch.unknownHeartbeat(`${name}.lost`, 'StandingBy')).toBe('Terminate')
      }
    }
  })

  it('gets Continue while it reports a match, if the store could not read the token of its Active server', async () => {
    const { watch, inventory, build } = await scene()
    const record = aServerRecord(build.record, 'lobby', { state: 'Active', tokenLost: true })
    const entry = inventory.addServer(build, record, '1')
    expect(watch.unknownHeartbeat('lobby.lost', 'Active')).toBe('Continue')
    expect(watch.unknownHeartbeat('lobby.lost', 'StandingBy')).toBe('Terminate')
    expect(watch.unknownHeartbeat('nobody.lost', 'Active')).toBe('Terminate')
    inventory.update(entry, { ...entry.record, state: 'Terminating' })
    expect(watch.unknownHeartbeat('lobby.lost', 'Active')).toBe('Terminate')
  })

  it('gets Terminate if its id has no secret', async () => {
    const { watch } = await scene()
    expect(watch.unknownHeartbeat('no-dot-at-all', 'Active')).toBe('Terminate')
  })
})
