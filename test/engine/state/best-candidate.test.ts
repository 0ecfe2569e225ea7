/** The server that goes first is the one that sorting all servers finds, whatever has happened to them before. */
import { fc, test } from '@fast-check/vitest'
import { expect } from 'vitest'
import { bestByMachine, firstThatFits } from '../../../src/engine/state/best-candidate.js'
import { candidatesOf } from '../../../src/engine/state/candidates.js'
import type { ServerEntry } from '../../../src/engine/state/entries.js'
import type { AllocationOrder } from '../../../src/rules/model/allocation-request.js'
import { noData, type ServerData } from '../../../src/rules/lifecycle/server-data.js'
import { isByMachine, rankOf } from '../../../src/rules/planning/server-choice.js'
import { aServerRecord, aSession, hear, standsBy, stock, take } from '../support.js'

const orders: readonly (AllocationOrder | undefined)[] = [
  undefined,
  { by: 'first-ready' },
  { by: 'newest' },
  { by: 'packed' },
  { by: 'distributed' },
  { by: 'least-available', counter: 'rooms' },
  { by: 'most-available', counter: 'rooms' },
]

const steps = fc.array(
  fc.record({
    what: fc.constantFrom('add', 'add', 'add', 'hear', 'miss', 'reserve', 'grant', 'release', 'data', 'move', 'remove'),
    server: fc.nat(7),
    node: fc.constantFrom('north', 'south', undefined),
    map: fc.constantFrom('dust', 'ridge'),
    count: fc.nat(2),
  }),
  { maxLength: 60 },
)

function dataOf(map: string, count: number): ServerData {
  return { ...noData, labels: { map }, counters: { rooms: { count, capacity: 2 } } }
}

test.prop([steps, fc.nat(30), fc.constantFrom('dust', 'ridge', undefined)])(
  'the best server is the first of all in the order',
  (all, indexedAfter, map) => {
    const { inventory, build } = stock()
    const entries = new Map<number, ServerEntry>()
    let now = 0
    for (const [i, { what, server, node, map: label, count }] of all.entries()) {
      // From some moment on, as the first request that selects servers asks for.
      if (i === indexedAfter) candidatesOf(build).allocatableOn(inventory.machineLoads)
      const entry = entries.get(server)
      const data = dataOf(label, count)
      if (!entry) {
        if (what !== 'add') continue
        const record = { ...aServerRecord(build.record, `arena-0000${server}`, standsBy), data, ...(node && { node }) }
        const added = inventory.addServer(build, record, '1')
        added.standingBySince = ++now
        entries.set(server, added)
      } else if (what === 'hear') hear(inventory, entry)
      else if (what === 'miss') {
        build.awaitingHeartbeat.add(entry)
        inventory.heardChanged(entry)
      } else if (what === 'reserve' && (entry.bucket === 'ready' || entry.bucket === 'unheard')) {
        take(inventory, entry, aSession(server))
      } else if (what === 'grant' && entry.places[0]?.session) {
        inventory.grant(entry, { ...entry.record, state: 'Active', sessions: [aSession(server)], startedSessions: 1 })
      } else if (what === 'release') inventory.releaseAll(entry)
      else if (what === 'data') inventory.update(entry, { ...entry.record, data })
      else if (what === 'move') inventory.update(entry, { ...entry.record, ...(node && { node }) })
      else if (what === 'remove') {
        inventory.remove(entry)
        entries.delete(server)
      }
    }
    const isFit = (data: ServerData = noData) => map === undefined || data.labels['map'] === map
    const loadOf = ({ record }: ServerEntry) =>
      [...entries.values()].filter(
        ({ bucket, record: other }) => (bucket === 'active' || bucket === 'reserved') && other.node === record.node,
      ).length
    for (const bucket of ['ready', 'unheard'] as const) {
      for (const order of orders) {
        const candidates = [...build.buckets[bucket]].map((entry) => ({
          entry,
          since: entry.standingBySince ?? 0,
          machineLoad: isByMachine(order) ? loadOf(entry) : 0,
          data: entry.record.data,
        }))
        const [first] = candidates
          .filter(({ data }) => isFit(data))
          .sort((a, b) => rankOf(order, a) - rankOf(order, b) || a.since - b.since)
        const ranking = { bucket, change: undefined, order }
        const picked = isByMachine(order)
          ? bestByMachine([build], ranking, isFit, inventory.machineLoads)
          : firstThatFits([build], ranking, isFit)
        expect(picked?.record.name).toBe(first?.entry.record.name)
      }
    }
  },
)
