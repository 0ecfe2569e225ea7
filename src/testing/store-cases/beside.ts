/** What holds between two hosts that have one store open: each sees what the other writes, and a watch tells of it. */
import assert from 'node:assert/strict'
import { type Build, keyOf, type Ref, type Server } from '../../rules/model/resources.js'
import type { CollectionListener, Store, Versioned } from '../../contracts/store.js'
import { completeServer, minimalBuild, minimalServer } from '../records.js'
import { rejects } from './scenario.js'

export interface BesideScenario {
  readonly name: string
  readonly run: (store: Store, other: Store) => Promise<void>
}

export function besideScenarios(namespace: string): readonly BesideScenario[] {
  const ref = { namespace, name: 'arena' }
  const second = { namespace, name: 'arena-2' }
  return [
    {
      name: 'what one host writes the other reads, and of two writes upon one revision one succeeds',
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
      name: 'a watch begins with all there is',
      async run(store, other) {
        const build = { record: minimalBuild(ref), revision: await other.builds.create(minimalBuild(ref)) }
        const server = { record: completeServer(second), revision: await other.servers.create(completeServer(second)) }
        const heard = watched(store, namespace)
        assert.deepStrictEqual(await heard.builds.listed, [build])
        assert.deepStrictEqual(await heard.servers.listed, [server])
        heard.stop()
      },
    },
    {
      name: 'a watch tells of what another host creates, writes and deletes',
      async run(store, other) {
        const heard = watched(store, namespace)
        await Promise.all([heard.builds.listed, heard.servers.listed])
        const created = await other.builds.create(minimalBuild(ref))
        await heard.builds.saw({ record: minimalBuild(ref), revision: created })
        const record = { ...minimalBuild(ref), crashes: 3 }
        await heard.builds.saw({ record, revision: await other.builds.update(record, created) })
        const server = await other.servers.create(minimalServer(ref))
        await heard.servers.saw({ record: minimalServer(ref), revision: server })
        await other.servers.delete(ref, server)
        await heard.servers.missed(ref)
        heard.stop()
      },
    },
    {
      name: 'a watch that was ended tells nothing more, and another one of the same store goes on',
      async run(store, other) {
        const [ended, goes] = [watched(store, namespace), watched(store, namespace)]
        await Promise.all([ended.builds.listed, goes.builds.listed, ended.servers.listed, goes.servers.listed])
        ended.stop()
        const revision = await other.builds.create(minimalBuild(ref))
        await goes.builds.saw({ record: minimalBuild(ref), revision })
        assert.equal(ended.builds.changes, 0)
        goes.stop()
      },
    },
    {
      name: 'closing ends the watches of a store, and nobody else’s',
      async run(store, other) {
        const [closed, goes] = [watched(other, namespace), watched(store, namespace)]
        await Promise.all([closed.builds.listed, goes.builds.listed])
        const created = await other.builds.create(minimalBuild(ref))
        await goes.builds.saw({ record: minimalBuild(ref), revision: created })
        await other.close()
        const before = closed.builds.changes
        const record = { ...minimalBuild(ref), crashes: 1 }
        await store.builds.update(record, created)
        await store.builds.delete(ref, (await store.builds.get(ref))?.revision ?? '')
        await goes.builds.missed(ref)
        assert.equal(closed.builds.changes, before)
        goes.stop()
      },
    },
  ]
}

function watched(store: Store, namespace: string) {
  assert.ok(store.watch, 'the store has no watch')
  const [builds, servers] = [ear<Build>(namespace), ear<Server>(namespace)]
  const stop = store.watch({ builds: builds.listener, servers: servers.listener })
  return { builds, servers, stop }
}

/** Hears of one collection, in one namespace; what it waits for may have come already. Nobody is told when: a runner has limits. */
function ear<T extends Ref>(namespace: string) {
  const seen = new Map<string, Versioned<T>>()
  const gone = new Set<string>()
  const waiting = new Set<() => void>()
  let told: (all: readonly Versioned<T>[]) => void
  const listed = new Promise<readonly Versioned<T>[]>((resolve) => (told = resolve))
  const look = () => waiting.forEach((each) => each())
  const listener: CollectionListener<T> = {
    listed(all, within) {
      for (const found of all) seen.set(keyOf(found.record), found)
      // A store of several namespaces may list each by itself, in any order.
      if (within === undefined || within === namespace) told(all)
      look()
    },
    changed(found) {
      self.changes++
      seen.set(keyOf(found.record), found)
      look()
    },
    gone(ref) {
      gone.add(keyOf(ref))
      look()
    },
  }
  const until = (isSo: () => boolean) =>
    new Promise<void>((resolve) => {
      const check = () => {
        if (!isSo()) return
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
    async saw(found: Versioned<T>) {
      await until(() => seen.get(keyOf(found.record))?.revision === found.revision)
      assert.deepStrictEqual(seen.get(keyOf(found.record)), found)
    },
    missed: (ref: Ref) => until(() => gone.has(keyOf(ref))),
  }
  return self
}
