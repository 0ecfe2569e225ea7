/** Store scenarios: two hosts share a store, read each other's writes and watch them. */
import assert from 'node:assert/strict'
import type { Collection, CollectionListener, Store, Versioned } from '../../contracts/store.js'
import { type Build, keyOf, type Ref, type Server } from '../../rules/model/resources.js'
import { completeServer, minimalBuild, minimalServer } from '../records.js'
import { range, rejects } from './scenario.js'

export interface SharedScenario {
  readonly name: string
  readonly run: (store: Store, other: Store) => Promise<void>
}

export function sharedScenarios(namespace: string): readonly SharedScenario[] {
  const ref = { namespace, name: 'arena' }
  const second = { namespace, name: 'arena-2' }
  return [
    {
      name: 'each host reads the writes of the other, and an old revision is a conflict for both',
      async run(store, other) {
        const created = await store.servers.create(minimalServer(ref))
        assert.deepStrictEqual(await other.servers.get(ref), { record: minimalServer(ref), revision: created })
        await rejects('conflict', other.servers.create(completeServer(ref)))
        const updated = await other.servers.update(completeServer(ref), created)
        await rejects('conflict', store.servers.update(minimalServer(ref), created))
        await rejects('conflict', store.servers.delete(ref, created))
        assert.deepStrictEqual(await store.servers.get(ref), { record: completeServer(ref), revision: updated })
      },
    },
    {
      name: 'a watch starts with a list of all records',
      async run(store, other) {
        const build = { record: minimalBuild(ref), revision: await other.builds.create(minimalBuild(ref)) }
        const server = { record: completeServer(second), revision: await other.servers.create(completeServer(second)) }
        const watch = watched(store, namespace)
        assert.deepStrictEqual(await watch.builds.listed, [build])
        assert.deepStrictEqual(await watch.servers.listed, [server])
        watch.stop()
      },
    },
    {
      name: 'a watch reports creates, updates and deletes of another host',
      async run(store, other) {
        const watch = watched(store, namespace)
        await Promise.all([watch.builds.listed, watch.servers.listed])
        const created = await other.builds.create(minimalBuild(ref))
        await watch.builds.reported({ record: minimalBuild(ref), revision: created })
        const record = { ...minimalBuild(ref), crashes: 3 }
        await watch.builds.reported({ record, revision: await other.builds.update(record, created) })
        const server = await other.servers.create(minimalServer(ref))
        await watch.servers.reported({ record: minimalServer(ref), revision: server })
        await other.servers.delete(ref, server)
        await watch.servers.reportedGone(ref)
        watch.stop()
      },
    },
    {
      name: 'a watch reports no version of a record that is older than one that a call has returned',
      async run(store, other) {
        const watch = watched(store, namespace)
        await Promise.all([watch.builds.listed, watch.servers.listed])
        const buildAt = (n: number) => ({ ...minimalBuild(ref), crashes: n })
        await writeInTurn([store.builds, other.builds], watch.builds, buildAt, ({ crashes }) => crashes)
        const serverAt = (n: number) => ({ ...minimalServer(ref), node: String(n) })
        await writeInTurn([store.servers, other.servers], watch.servers, serverAt, ({ node }) => Number(node))
        watch.stop()
      },
    },
    {
      name: 'a stopped watch reports nothing; another watch of the same store continues',
      async run(store, other) {
        const [stopped, active] = [watched(store, namespace), watched(store, namespace)]
        await Promise.all([stopped.builds.listed, active.builds.listed, stopped.servers.listed, active.servers.listed])
        stopped.stop()
        const revision = await other.builds.create(minimalBuild(ref))
        await active.builds.reported({ record: minimalBuild(ref), revision })
        assert.equal(stopped.builds.changes, 0)
        active.stop()
      },
    },
    {
      name: 'close stops the watches of that store only',
      async run(store, other) {
        const [closed, active] = [watched(other, namespace), watched(store, namespace)]
        await Promise.all([closed.builds.listed, active.builds.listed])
        const created = await other.builds.create(minimalBuild(ref))
        await active.builds.reported({ record: minimalBuild(ref), revision: created })
        await other.close()
        const before = closed.builds.changes
        const record = { ...minimalBuild(ref), crashes: 1 }
        await store.builds.update(record, created)
        await store.builds.delete(ref, (await store.builds.get(ref))?.revision ?? '')
        await active.builds.reportedGone(ref)
        assert.equal(closed.builds.changes, before)
        active.stop()
      },
    },
  ]
}

/**
 * Writes versions 0 to 20 of a record, alternating between two hosts. The first of them watches it, and must not be sent a
 * version that is older than its own latest write.
 */
async function writeInTurn<T extends Ref>(
  [own, other]: readonly [Collection<T>, Collection<T>],
  watch: Recorder<T>,
  recordAt: (version: number) => T,
  versionOf: (record: T) => number,
): Promise<void> {
  let latest = 0
  const stale: string[] = []
  watch.onChanged(({ record }) => {
    if (versionOf(record) < latest) stale.push(`version ${versionOf(record)} after ${latest}`)
  })
  let revision = await own.create(recordAt(0))
  for (const version of range(20).map((n) => n + 1)) {
    const isOwn = version % 2 === 1
    revision = await (isOwn ? own : other).update(recordAt(version), revision)
    if (isOwn) latest = version
  }
  await watch.reported({ record: recordAt(20), revision })
  assert.deepStrictEqual(stale, [])
}

function watched(store: Store, namespace: string) {
  assert.ok(store.watch, 'the store has no watch')
  const [builds, servers] = [recorder<Build>(namespace), recorder<Server>(namespace)]
  const stop = store.watch({ builds: builds.listener, servers: servers.listener })
  return { builds, servers, stop }
}

type Recorder<T extends Ref> = ReturnType<typeof recorder<T>>

/** Records the events for one collection in one namespace. Its waits have no timeout of their own. */
function recorder<T extends Ref>(namespace: string) {
  const seen = new Map<string, Versioned<T>>()
  const gone = new Set<string>()
  const waiting = new Set<() => void>()
  let resolveListed: (all: readonly Versioned<T>[]) => void
  const listed = new Promise<readonly Versioned<T>[]>((resolve) => (resolveListed = resolve))
  let notify: (found: Versioned<T>) => void = () => {}
  const checkAll = () => waiting.forEach((check) => check())
  const listener: CollectionListener<T> = {
    listed(all, within) {
      for (const found of all) seen.set(keyOf(found.record), found)
      // A store may list each namespace separately, in any order.
      if (within === undefined || within === namespace) resolveListed(all)
      checkAll()
    },
    changed(found) {
      self.changes++
      notify(found)
      seen.set(keyOf(found.record), found)
      checkAll()
    },
    gone(ref) {
      gone.add(keyOf(ref))
      checkAll()
    },
  }
  const until = (condition: () => boolean) =>
    new Promise<void>((resolve) => {
      const check = () => {
        if (!condition()) return
        waiting.delete(check)
        resolve()
      }
      waiting.add(check)
      check()
    })
  const self = {
    listener,
    listed,
    changes: 0,
    async reported(found: Versioned<T>) {
      await until(() => seen.get(keyOf(found.record))?.revision === found.revision)
      assert.deepStrictEqual(seen.get(keyOf(found.record)), found)
    },
    onChanged: (call: (found: Versioned<T>) => void) => void (notify = call),
    reportedGone: (ref: Ref) => until(() => gone.has(keyOf(ref))),
  }
  return self
}
