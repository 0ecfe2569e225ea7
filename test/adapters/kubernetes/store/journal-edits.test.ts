/** What kubectl edits on a server with an entry arrives in the fleet, and a new leader lists every entry. */
import { expect, it } from 'vitest'
import { ServerCollection } from '../../../../adapters/kubernetes/store/server-collection.js'
import { fleetResources } from '../../../../adapters/kubernetes/store/objects/custom-resources.js'
import type { JournalContent } from '../../../../adapters/kubernetes/store/journal/journal-object.js'
import { FleetError } from '../../../../src/contracts/errors.js'
import { silentLogger } from '../../../../src/contracts/logger.js'
import type { Server } from '../../../../src/rules/model/resources.js'
import { minimalServer } from '../../../../src/testing/records.js'
import { virtualClock } from '../../../../src/testing/virtual-clock.js'

/** The collection of a leader whose every allocation is journaled, over objects in memory. */
async function scene() {
  const clock = virtualClock()
  let revision = 100
  let object: any
  const touch = (next: any) => {
    object = { ...next, metadata: { ...next.metadata, resourceVersion: String(++revision) } }
    return structuredClone(object)
  }
  const api: any = {
    priorityPauseMs: 1_000,
    list: async () => ({ items: object ? [structuredClone(object)] : [], revision: String(revision) }),
    object: async (call: any) => {
      await Promise.resolve()
      if (call.method === 'GET') return structuredClone(object)
      if (call.method === 'POST') return touch({ ...call.body, metadata: { ...call.body.metadata, uid: 'object-1' } })
      if (call.body.metadata.resourceVersion !== object.metadata.resourceVersion)
        throw new FleetError('conflict', 'changed')
      return touch({ ...object, status: JSON.parse(JSON.stringify(call.body.status)) })
    },
  }
  let stored: (JournalContent & { revision: string }) | undefined
  const journal = {
    ...{ clock, logger: silentLogger, term: () => 1, key: () => new Uint8Array(32), warn: () => {}, minGroup: 1 },
    storage: {
      read: async () => stored,
      write: async (content: JournalContent) => (stored = { ...content, revision: String(++revision) }).revision,
    },
  }
  const encryption = {
    encrypt: (token: string) => token,
    decrypt: (token: string) => ({ token }),
    isGenuine: () => true,
  }
  const servers = new ServerCollection(
    { api, namespaces: undefined, throwIfClosed: () => {} },
    fleetResources(),
    encryption,
    { ownerByUid: () => undefined } as any,
    { logger: silentLogger, editRefused: () => {}, journal },
  )
  await servers.list()
  const record = { ...minimalServer({ namespace: 'games', name: 'a' }), state: 'StandingBy' as const }
  const created = await servers.create(record)
  const active: Server = { ...record, state: 'Active', session: { id: 'match', initialPlayers: [] } }
  const at = await servers.update(active, created)
  expect(stored?.entries).toHaveLength(1)
  return {
    ...{ clock, servers, active, at },
    /** `kubectl label gs a map=dust` */
    label: () =>
      touch({ ...object, metadata: { ...object.metadata, labels: { ...object.metadata.labels, map: 'dust' } } }),
    /** What CollectionFollower does with an event of the watch. */
    event: (seen: any) => (servers.isUnseen(seen) ? servers.versioned(seen) : undefined),
    current: () => structuredClone(object),
  }
}

it('a label that is edited under an entry is not lost when the record is written over the entry', async () => {
  const { servers, active, at, label, event } = await scene()
  expect(event(label())?.revision).toBe(at)
  let record: Server = { ...active, node: 'node-2' }
  let revision = await servers.update(record, at).catch(() => undefined)
  if (revision === undefined) {
    const found = await servers.get(record)
    if (!found) throw new Error('gone')
    record = { ...found.record, node: 'node-2' }
    revision = await servers.update(record, found.revision)
  } else revision = await servers.update((record = { ...record, node: 'node-3' }), revision)
  expect((await servers.get(record))?.record.data?.labels).toEqual({ map: 'dust' })
})

it('... while its watch event has not arrived yet', async () => {
  const { servers, active, at, label } = await scene()
  label()
  let record: Server = { ...active, node: 'node-2' }
  let revision = await servers.update(record, at).catch(() => undefined)
  if (revision === undefined) {
    const found = await servers.get(record)
    if (!found) throw new Error('gone')
    record = { ...found.record, node: 'node-2' }
    revision = await servers.update(record, found.revision)
  } else revision = await servers.update((record = { ...record, node: 'node-3' }), revision)
  expect((await servers.get(record))?.record.data?.labels).toEqual({ map: 'dust' })
})

it('a label that is edited under an entry is reported by the watch once the status is written', async () => {
  const { clock, at, label, event, current } = await scene()
  const reported = [event(label())]
  await clock.advance(2_000)
  expect(current().status.sessionID).toBe('match')
  reported.push(event(current()))
  const edited = reported.find((found) => found?.record.data?.labels['map'] === 'dust')
  expect(edited?.revision).not.toBe(at)
  expect(edited).toBeDefined()
})

it('a new leader lists an entry whose status is written while the list is being read', async () => {
  const { open, clock } = await twoHosts()
  const first = await open('one')
  const record = { ...minimalServer({ namespace: 'games', name: 'a' }), state: 'StandingBy' as const }
  const created = await first.create(record)
  await first.update({ ...record, state: 'Active', session: { id: 'match', initialPlayers: [] } }, created)
  first.close() // Killed.
  const second = await open('two', 500)
  const listing = second.list()
  await clock.advance(1_000)
  expect((await listing).map(({ record: { session } }) => session?.id)).toEqual(['match'])
})

async function twoHosts() {
  const clock = virtualClock()
  let revision = 100
  let object: any
  let stored: (JournalContent & { revision: string }) | undefined
  const touch = (next: any) => {
    object = { ...next, metadata: { ...next.metadata, resourceVersion: String(++revision) } }
    return structuredClone(object)
  }
  const open = async (_name: string, listMs = 0) => {
    const api: any = {
      priorityPauseMs: 1_000,
      list: async () => {
        const items = object ? [structuredClone(object)] : []
        // The snapshot was taken when the first page was read.
        if (listMs > 0) await new Promise<void>((resolve) => clock.after(listMs, resolve))
        return { items, revision: String(revision) }
      },
      object: async (call: any) => {
        await Promise.resolve()
        if (call.method === 'GET') return structuredClone(object)
        if (call.method === 'POST') return touch({ ...call.body, metadata: { ...call.body.metadata, uid: 'object-1' } })
        if (call.body.metadata.resourceVersion !== object.metadata.resourceVersion)
          throw new FleetError('conflict', 'changed')
        return touch({ ...object, status: JSON.parse(JSON.stringify(call.body.status)) })
      },
    }
    const journal = {
      ...{ clock, logger: silentLogger, term: () => 1, key: () => new Uint8Array(32), warn: () => {}, minGroup: 1 },
      storage: {
        read: async () => stored,
        write: async (content: JournalContent) => (stored = { ...content, revision: String(++revision) }).revision,
      },
    }
    const encryption = {
      encrypt: (token: string) => token,
      decrypt: (token: string) => ({ token }),
      isGenuine: () => true,
    }
    const servers = new ServerCollection(
      { api, namespaces: undefined, throwIfClosed: () => {} },
      fleetResources(),
      encryption,
      { ownerByUid: () => undefined } as any,
      { logger: silentLogger, editRefused: () => {}, journal },
    )
    if (listMs === 0) await servers.list()
    return servers
  }
  return { open, clock }
}
