/** Labels, annotations, counters and lists of servers: who may change them, when a change is durable, and what a restart does to them. */
import type { GameServerBuildInput } from 'gamekeeper'
import type { CallFault } from 'gamekeeper/testing'
import { describe, expect, it } from 'vitest'
import { aBuild, ask, failureOf, nth, only, serversBy, stage, untilReady } from './stage.js'

const counters = { rooms: { count: 0, capacity: 3 } }
const lists = { players: { values: [], capacity: 2 } }

async function running() {
  const scene = stage()
  const fleet = await scene.open()
  const build = aBuild({ standingBy: 1, max: 4 })
  const template = { ...build.spec.template, metadata: { labels: { map: 'dust' } } }
  await fleet.builds.create({ ...build, spec: { ...build.spec, template, counters, lists } })
  await untilReady(scene, fleet, 1)
  return { scene, fleet, ref: nth(scene.backend.servers(), 0).ref }
}

describe('the data of a server', () => {
  it('begin with the labels of the template and what the spec declares', async () => {
    const { fleet, ref } = await running()
    const { metadata, status } = await fleet.servers.get(ref)
    expect(metadata).toMatchObject({ labels: { map: 'dust' } })
    expect(metadata).not.toHaveProperty('annotations')
    expect(status).toMatchObject({ counters, lists })
  })

  it('are changed durably, in one write, and each change emits one event', async () => {
    const { scene, fleet, ref } = await running()
    const before = scene.calls.length
    const change = {
      labels: { map: null, 'example.com/mode': 'duel' },
      annotations: { note: 'né' },
      counters: { rooms: { increment: 2 } },
      lists: { players: { add: ['amie'] } },
    }
    const { metadata, status } = await fleet.servers.update(ref, change)
    expect(metadata).toMatchObject({ labels: { 'example.com/mode': 'duel' }, annotations: { note: 'né' } })
    expect(metadata.labels).not.toHaveProperty('map')
    expect(status.counters).toEqual({ rooms: { count: 2, capacity: 3 } })
    expect(status.lists).toEqual({ players: { values: ['amie'], capacity: 2 } })
    const writes = scene.calls.slice(before).filter(({ method }) => method === 'servers.update')
    expect(writes).toHaveLength(1)
    const stored = (await scene.records.servers.get(ref))?.record.data
    expect(stored).toMatchObject({ counters: status.counters, lists: status.lists })
    const event = only(scene.eventsOf('ServerDataChanged'))
    expect(event).toMatchObject({ server: ref, build: { name: 'arena' } })
    expect(event.changed).toEqual([
      'labels.map',
      'labels.example.com/mode',
      'annotations.note',
      'counters.rooms',
      'lists.players',
    ])
    expect(event.message).toContain('counter rooms is 2 of 3')
    expect((await fleet.explain(ref)).text).toContain('counter rooms is 2 of 3')
  })

  it('need no write if an update changes nothing', async () => {
    const { scene, fleet, ref } = await running()
    const before = scene.calls.length
    await fleet.servers.update(ref, { labels: { map: 'dust' }, lists: { players: { remove: ['eve'] } } })
    expect(scene.calls.slice(before)).toEqual([])
    expect(scene.eventsOf('ServerDataChanged')).toEqual([])
  })

  it('never pass a capacity, however many calls are made at once', async () => {
    const { fleet, ref } = await running()
    const calls = Array.from({ length: 20 }, () => fleet.servers.update(ref, { counters: { rooms: { increment: 1 } } }))
    const settled = await Promise.allSettled(calls)
    expect(settled.filter(({ status }) => status === 'fulfilled')).toHaveLength(3)
    for (const result of settled) {
      if (result.status === 'rejected') expect(result.reason).toMatchObject({ code: 'out-of-range', retryable: false })
    }
    expect((await fleet.servers.get(ref)).status.counters).toEqual({ rooms: { count: 3, capacity: 3 } })
  })

  it('stay with the server through its match, and survive a crash of the host', async () => {
    const { scene, fleet, ref } = await running()
    await fleet.servers.update(ref, { counters: { rooms: { increment: 1 } }, labels: { owner: 'ops' } })
    await fleet.allocate(ask(1))
    await fleet.servers.update(ref, { counters: { rooms: { increment: 1 } } })
    scene.crash()
    const next = await scene.open()
    const { metadata, status } = await next.servers.get(ref)
    expect(status).toMatchObject({ state: 'Active', counters: { rooms: { count: 2 } } })
    expect(metadata.labels).toEqual({ map: 'dust', owner: 'ops' })
  })

  it('keep a change that is made while the store answers an allocation late', async () => {
    const { scene, fleet, ref } = await running()
    const once = new Map<string, CallFault>([
      ['servers.update', { kind: 'delay-effect', ms: 100 }],
      ['servers.get', { kind: 'delay-reply', ms: 200 }],
    ])
    scene.faults.store = ({ method }) => {
      const fault = once.get(method)
      once.delete(method)
      return fault
    }
    const allocated = fleet.allocate(ask(1))
    await scene.clock.advance(10)
    const updated = fleet.servers.update(ref, { counters: { rooms: { increment: 1 } } })
    await scene.clock.advance(1_000)
    expect((await allocated).server).toEqual(ref)
    expect((await updated).status).toMatchObject({ state: 'Active', counters: { rooms: { count: 1 } } })
    expect((await scene.records.servers.get(ref))?.record).toMatchObject({
      state: 'Active',
      data: { counters: { rooms: { count: 1 } } },
    })
  })

  it('are written later if the store does not work, and the call says that the outcome is unknown', async () => {
    const { scene, fleet, ref } = await running()
    scene.faults.store = ({ method }) => (method.startsWith('servers.') ? { kind: 'refuse' } : undefined)
    const error = await failureOf(fleet.servers.update(ref, { counters: { rooms: { increment: 1 } } }))
    expect(error.code).toBe('unavailable')
    scene.faults.store = () => undefined
    await scene.clock.advance(30_000)
    expect((await scene.records.servers.get(ref))?.record.data?.counters).toEqual({ rooms: { count: 1, capacity: 3 } })
  })

  const invalid: readonly (readonly [unknown, string])[] = [
    ['x', 'the change must be an object'],
    [{}, 'at least one of labels'],
    [{ label: {} }, 'label is not allowed; did you mean labels?'],
    [{ labels: { 'no spaces': 'x' } }, 'labels must have keys of the form of a Kubernetes label key'],
    [{ labels: { map: 'no spaces' } }, 'labels.map must be a Kubernetes label value'],
    [{ labels: { map: 7 } }, 'labels.map must be'],
    [{ annotations: { note: 'x'.repeat(20_000) } }, 'annotations.note'],
    [{ counters: { rooms: {} } }, 'counters.rooms must set at least one of'],
    [{ counters: { rooms: { increment: 0 } } }, 'counters.rooms.increment must be an integer ≥ 1, but is 0'],
    [{ counters: { rooms: { increment: 1.5 } } }, 'counters.rooms.increment must be'],
    [{ counters: { rooms: { increment: 1, count: 2 } } }, 'counters.rooms.count is not allowed beside increment'],
    [{ counters: { lobbies: { increment: 1 } } }, 'counters.lobbies does not exist: this server has rooms'],
    [{ lists: { players: { add: [''] } } }, 'lists.players.add[0] must be a non-empty string'],
    [{ lists: { players: { add: ['a', 'a'] } } }, 'lists.players.add[1] must not repeat a value'],
    [{ lists: { players: { capacity: 1_001 } } }, 'lists.players.capacity must be'],
    [{ lists: { rooms: { add: ['a'] } } }, 'lists.rooms does not exist: this server has players'],
  ]
  it.each(invalid)('are not changed by an invalid update: %j', async (change, message) => {
    const { scene, fleet, ref } = await running()
    const before = scene.calls.length
    const error = await failureOf(fleet.servers.update(ref, change as object))
    expect(error).toMatchObject({ code: 'invalid', message: expect.stringContaining(message) })
    expect(scene.calls.slice(before)).toEqual([])
  })

  it('of a server that is terminating or does not exist cannot be changed', async () => {
    const { scene, fleet, ref } = await running()
    await fleet.servers.delete(ref)
    expect(await serversBy(fleet, 'Terminating')).toHaveLength(1)
    const change = { labels: { map: 'aztec' } }
    expect((await failureOf(fleet.servers.update(ref, change))).code).toBe('not-found')
    expect((await failureOf(fleet.servers.update('nobody', change))).code).toBe('not-found')
    expect(scene.eventsOf('ServerDataChanged')).toEqual([])
  })
})

describe('a build', () => {
  it.each([
    [
      { rooms: { count: 4, capacity: 3 } },
      'spec.counters.rooms.count must be at most the capacity, which is 3, but is 4',
    ],
    [{ rooms: { count: 0 } }, 'spec.counters.rooms.capacity must be'],
    [{ '7': { count: 0, capacity: 1 } }, 'spec.counters must have keys of 1 to 63'],
    [
      Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`c${i}`, { count: 0, capacity: 1 }])),
      'spec.counters must have at most 16 entries, but has 17',
    ],
  ])('that declares %j is refused', async (declared, message) => {
    const fleet = await stage().open()
    const build = aBuild({ standingBy: 0, max: 1 })
    const input = { ...build, spec: { ...build.spec, counters: declared } } as GameServerBuildInput
    expect(await failureOf(fleet.builds.create(input))).toMatchObject({
      code: 'invalid',
      message: expect.stringContaining(message),
    })
  })

  it('whose counters change replaces its idle servers, and a server with a match keeps its own', async () => {
    const { scene, fleet, ref } = await running()
    await fleet.allocate(ask(1))
    await fleet.builds.update('arena', { counters: { lobbies: { count: 1, capacity: 9 } } })
    await untilReady(scene, fleet, 1)
    await scene.clock.advance(60_000)
    const servers = await fleet.servers.list()
    for (const { metadata, status } of servers) {
      const expected = metadata.name === ref.name ? counters : { lobbies: { count: 1, capacity: 9 } }
      expect(status.counters).toEqual(expected)
    }
    expect(servers.length).toBeGreaterThan(1)
  })
})

describe('an edit in the store', () => {
  /** Writes the record as another host or a person does, and waits until the fleet has read it. */
  async function edited(edit: (labels: Readonly<Record<string, string>>) => object) {
    const { scene, fleet, ref } = await running()
    const found = await scene.records.servers.get(ref)
    if (found?.record.data === undefined) throw new Error('the server has no data')
    const data = { ...found.record.data, ...edit(found.record.data.labels) }
    await scene.records.servers.update({ ...found.record, data }, found.revision)
    await fleet.servers.update(ref, { annotations: { note: 'mine' } })
    return { stored: (await scene.records.servers.get(ref))?.record.data, shown: await fleet.servers.get(ref) }
  }

  it("of labels and counters is accepted, and this host's own change beside it is kept", async () => {
    const { stored, shown } = await edited((labels) => ({
      labels: { ...labels, owner: 'ops' },
      counters: { rooms: { count: 2, capacity: 3 } },
    }))
    expect(stored).toMatchObject({ labels: { map: 'dust', owner: 'ops' }, annotations: { note: 'mine' } })
    expect(shown.status.counters).toEqual({ rooms: { count: 2, capacity: 3 } })
  })

  it('that is not valid is overwritten', async () => {
    const { stored, shown } = await edited(() => ({ counters: { rooms: { count: 4, capacity: 3 } } }))
    expect(stored).toMatchObject({ counters, annotations: { note: 'mine' } })
    expect(shown.status.counters).toEqual(counters)
  })
})
