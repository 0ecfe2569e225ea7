/** The cases of the store conformance suite. */
import assert from 'node:assert/strict'
import { type ErrorCode, FleetError } from '../contracts/errors.js'
import type { Collection, CollectionListener, Store, Versioned } from '../contracts/store.js'
import { type Build, keyOf, type Ref, type Server } from '../rules/model/resources.js'
import { completeBuild, completeDetail, completeServer, minimalBuild, minimalDetail, minimalServer } from './records.js'

export interface Kind<T extends Ref> {
  readonly name: string
  /** Undefined if the store has no such records. */
  of(store: Store): Collection<T> | undefined
  complete(ref: Ref): T
  minimal(ref: Ref): T
  /** Returns the record with a change that is different for each `n`. */
  changed(record: T, n: number): T
}

export interface Scenario {
  readonly name: string
  readonly run: (store: Store) => Promise<void>
}

interface DurabilityScenario {
  readonly name: string
  /** Runs before the store is closed and reopened. Resolves to values for `after`. */
  readonly before: (store: Store) => Promise<readonly string[]>
  readonly after: (store: Store, result: readonly string[]) => Promise<void>
}

async function rejects(code: ErrorCode, promise: Promise<unknown>): Promise<void> {
  const outcome = await promise.then(
    (value) => ({ value }),
    (error: unknown) => ({ error }),
  )
  if ('value' in outcome) assert.fail(`expected '${code}', but it resolved with ${String(outcome.value)}`)
  assert.ok(FleetError.is(outcome.error, code), `expected '${code}', but it rejected with ${String(outcome.error)}`)
}

function byName<T extends Ref>(records: readonly T[]): readonly T[] {
  return records.toSorted((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0))
}

function range(count: number): readonly number[] {
  return Array.from({ length: count }, (_, n) => n)
}

// Get, list, create, update and delete in one collection.

export function collectionScenarios<T extends Ref>(kind: Kind<T>, namespace: string): readonly Scenario[] {
  const ref = { namespace, name: 'arena' }
  const scenario = (name: string, run: (collection: Collection<T>, store: Store) => Promise<void>): Scenario => ({
    name: `${kind.name}: ${name}`,
    async run(store) {
      const collection = kind.of(store)
      if (collection) await run(collection, store)
    },
  })
  return [
    scenario('a new store has no records', async (collection) => {
      assert.deepEqual(await collection.list(), [])
      assert.equal(await collection.get(ref), undefined)
    }),
    scenario('create: get and list return the record with the revision of create', async (collection) => {
      const record = kind.complete(ref)
      const revision = await collection.create(record)
      assert.deepEqual(await collection.get(ref), { record, revision })
      assert.deepEqual(await collection.list(), [{ record, revision }])
    }),
    scenario('update: replaces the record and returns a new revision', async (collection) => {
      const first = await collection.create(kind.complete(ref))
      const record = kind.changed(kind.minimal(ref), 1)
      const revision = await collection.update(record, first)
      assert.notEqual(revision, first)
      assert.deepEqual(await collection.get(ref), { record, revision })
      assert.deepEqual(await collection.list(), [{ record, revision }])
    }),
    scenario('update: an unchanged record still gets a new revision', async (collection) => {
      const first = await collection.create(kind.complete(ref))
      assert.notEqual(await collection.update(kind.complete(ref), first), first)
      await rejects('conflict', collection.update(kind.complete(ref), first))
    }),
    scenario('delete: removes the record, and its name can be reused', async (collection) => {
      await collection.delete(ref, await collection.create(kind.complete(ref)))
      assert.equal(await collection.get(ref), undefined)
      assert.deepEqual(await collection.list(), [])
      await collection.create(kind.minimal(ref))
      assert.deepEqual((await collection.get(ref))?.record, kind.minimal(ref))
    }),
    scenario('create: rejects an existing name with conflict and changes nothing', async (collection) => {
      const revision = await collection.create(kind.complete(ref))
      await rejects('conflict', collection.create(kind.minimal(ref)))
      assert.deepEqual(await collection.get(ref), { record: kind.complete(ref), revision })
    }),
    scenario('update: rejects an old revision with conflict and changes nothing', async (collection) => {
      const old = await collection.create(kind.complete(ref))
      const revision = await collection.update(kind.changed(kind.complete(ref), 1), old)
      await rejects('conflict', collection.update(kind.changed(kind.complete(ref), 2), old))
      assert.deepEqual(await collection.get(ref), { record: kind.changed(kind.complete(ref), 1), revision })
    }),
    scenario('update: rejects a missing record with not-found and creates nothing', async (collection) => {
      const revision = await collection.create(kind.complete(ref))
      const other = { ...ref, name: 'arena-2' }
      await rejects('not-found', collection.update(kind.complete(other), revision))
      assert.equal(await collection.get(other), undefined)
      await collection.delete(ref, revision)
      await rejects('not-found', collection.update(kind.complete(ref), revision))
      assert.deepEqual(await collection.list(), [])
    }),
    scenario('delete: rejects an old revision with conflict and deletes nothing', async (collection) => {
      const old = await collection.create(kind.complete(ref))
      const revision = await collection.update(kind.changed(kind.complete(ref), 1), old)
      await rejects('conflict', collection.delete(ref, old))
      assert.equal((await collection.get(ref))?.revision, revision)
    }),
    scenario('delete: succeeds if the record does not exist', async (collection) => {
      const revision = await collection.create(kind.complete(ref))
      await collection.delete({ ...ref, name: 'arena-2' }, revision)
      await collection.delete(ref, revision)
      await collection.delete(ref, revision)
    }),
    scenario('a revision of a deleted record conflicts with a later record of the same name', async (collection) => {
      const seen = new Set<string>()
      for (let round = 0; round < 5; round++) {
        const created = await collection.create(kind.complete(ref))
        const updated = await collection.update(kind.complete(ref), created)
        for (const old of seen) {
          await rejects('conflict', collection.update(kind.minimal(ref), old))
          await rejects('conflict', collection.delete(ref, old))
        }
        for (const revision of [created, updated]) {
          assert.ok(!seen.has(revision), `revision ${revision} was used twice`)
          seen.add(revision)
        }
        await collection.delete(ref, updated)
      }
    }),
    scenario('an unknown revision is a conflict', async (collection) => {
      await collection.create(kind.complete(ref))
      for (const foreign of ['', '0', 'never', '-1', 'NaN', '1e0']) {
        await rejects('conflict', collection.update(kind.minimal(ref), foreign))
        await rejects('conflict', collection.delete(ref, foreign))
      }
    }),
    scenario('records are returned deeply equal, with and without optional fields', async (collection) => {
      const records = [kind.complete(ref), kind.minimal({ ...ref, name: 'arena-2' })]
      for (const record of records) await collection.create(record)
      for (const record of records) assert.deepStrictEqual((await collection.get(record))?.record, record)
      const listed = (await collection.list()).map(({ record }) => record)
      assert.deepStrictEqual(byName(listed), byName(records))
    }),
    scenario('a call with an aborted signal rejects with aborted and has no effect', async (collection) => {
      const revision = await collection.create(kind.complete(ref))
      const signal = AbortSignal.abort(new Error('the caller left'))
      await rejects('aborted', collection.get(ref, { signal }))
      await rejects('aborted', collection.list({ signal }))
      await rejects('aborted', collection.create(kind.complete({ ...ref, name: 'arena-2' }), { signal }))
      await rejects('aborted', collection.update(kind.minimal(ref), revision, { signal }))
      await rejects('aborted', collection.delete(ref, revision, { signal }))
      assert.deepEqual(await collection.list(), [{ record: kind.complete(ref), revision }])
    }),
    scenario('a signal that does not fire has no effect', async (collection) => {
      const { signal } = new AbortController()
      const created = await collection.create(kind.complete(ref), { signal })
      const revision = await collection.update(kind.minimal(ref), created, { signal })
      assert.deepEqual(await collection.get(ref, { signal }), { record: kind.minimal(ref), revision })
      assert.equal((await collection.list({ signal })).length, 1)
      await collection.delete(ref, revision, { signal })
    }),
    scenario('after close every call rejects with closed', async (collection, store) => {
      const revision = await collection.create(kind.complete(ref))
      await store.close()
      await rejects('closed', collection.get(ref))
      await rejects('closed', collection.list())
      await rejects('closed', collection.create(kind.complete({ ...ref, name: 'arena-2' })))
      await rejects('closed', collection.update(kind.minimal(ref), revision))
      await rejects('closed', collection.delete(ref, revision))
    }),
  ]
}

// Concurrent writes.

export function concurrencyScenarios(namespace: string): readonly Scenario[] {
  const ref = { namespace, name: 'arena' }
  return [
    {
      name: 'concurrent creates of one name: exactly one succeeds',
      async run({ servers }) {
        const outcomes = await Promise.allSettled(
          range(20).map((n) => servers.create({ ...minimalServer(ref), node: `node-${n}` })),
        )
        const winner = onlyWinner(outcomes)
        assert.equal((await servers.get(ref))?.record.node, `node-${winner}`)
      },
    },
    {
      name: 'concurrent updates of one revision: exactly one succeeds',
      async run({ servers }) {
        let revision = await servers.create(minimalServer(ref))
        for (let round = 0; round < 10; round++) {
          const read = revision
          const outcomes = await Promise.allSettled(
            range(20).map((n) => servers.update({ ...minimalServer(ref), node: `node-${round}-${n}` }, read)),
          )
          const winner = onlyWinner(outcomes)
          const now = await servers.get(ref)
          assert.equal(now?.record.node, `node-${round}-${winner}`)
          revision = now.revision
        }
      },
    },
    {
      name: 'a concurrent update and delete of one revision: exactly one succeeds',
      async run({ servers }) {
        for (let round = 0; round < 10; round++) {
          const revision = await servers.create(minimalServer(ref))
          const [update, remove] = await Promise.allSettled([
            servers.update(completeServer(ref), revision),
            servers.delete(ref, revision),
          ])
          const left = await servers.get(ref)
          if (update.status === 'fulfilled') {
            assert.equal(remove.status, 'rejected', 'the update and the delete of one revision both succeeded')
            assert.deepEqual(left, { record: completeServer(ref), revision: update.value })
            await servers.delete(ref, update.value)
          } else {
            assert.equal(remove.status, 'fulfilled', 'neither the update nor the delete succeeded')
            assert.ok(FleetError.is(update.reason, 'not-found') || FleetError.is(update.reason, 'conflict'))
            assert.equal(left, undefined)
          }
        }
      },
    },
    {
      name: 'concurrent increments by read and compare-and-swap are all counted',
      async run({ builds }) {
        await builds.create(minimalBuild(ref))
        const countUp = async () => {
          for (;;) {
            const read = await builds.get(ref)
            assert.ok(read)
            try {
              return await builds.update({ ...read.record, crashes: read.record.crashes + 1 }, read.revision)
            } catch (error) {
              if (!FleetError.is(error, 'conflict')) throw error
            }
          }
        }
        await Promise.all(range(10).map(() => countUp().then(countUp).then(countUp)))
        assert.equal((await builds.get(ref))?.record.crashes, 30)
      },
    },
    {
      name: 'a read after a completed write returns it',
      async run({ servers }) {
        let revision = await servers.create(minimalServer(ref))
        for (const n of range(20)) {
          const record = { ...minimalServer(ref), node: `node-${n}` }
          revision = await servers.update(record, revision)
          const [got, listed] = await Promise.all([servers.get(ref), servers.list()])
          assert.deepEqual(got, { record, revision })
          assert.deepEqual(listed, [{ record, revision }])
        }
      },
    },
    {
      name: 'a list during writes shows every unchanged record once, and no partial write',
      async run({ servers }) {
        const names = range(100).map((n) => `arena-${n}`)
        const created = await Promise.all(
          names.map(async (name): Promise<Versioned<Server>> => {
            const record = minimalServer({ namespace, name })
            return { record, revision: await servers.create(record) }
          }),
        )
        const untouched = created.filter((_, n) => n % 2 === 0)
        const touched = created.filter((_, n) => n % 2 === 1)
        const writing = Promise.all(
          touched.map(async ({ record, revision }, n) => {
            let last = revision
            for (const i of range(5)) last = await servers.update({ ...record, node: `node-${i}` }, last)
            if (n % 5 === 0) await servers.delete(record, last)
          }),
        )
        for (let round = 0; round < 10; round++) {
          const listed = await servers.list()
          assert.equal(
            new Set(listed.map(({ record }) => record.name)).size,
            listed.length,
            'a record was listed twice',
          )
          const byNameNow = new Map(listed.map((versioned) => [versioned.record.name, versioned]))
          for (const versioned of untouched) assert.deepEqual(byNameNow.get(versioned.record.name), versioned)
          for (const { record } of touched) {
            const now = byNameNow.get(record.name)?.record
            if (now) assert.deepEqual(now, now.node === undefined ? record : { ...record, node: now.node })
          }
        }
        await writing
        assert.equal((await servers.list()).length, 90)
      },
    },
  ]
}

/** Returns the index of the only call that succeeded. All others must have rejected with `conflict`. */
function onlyWinner(outcomes: readonly PromiseSettledResult<unknown>[]): number {
  const winners = outcomes.flatMap((outcome, n) => (outcome.status === 'fulfilled' ? [n] : []))
  assert.equal(winners.length, 1, `${winners.length} of ${outcomes.length} succeeded`)
  for (const outcome of outcomes) {
    if (outcome.status === 'rejected') assert.ok(FleetError.is(outcome.reason, 'conflict'), String(outcome.reason))
  }
  return winners[0] ?? -1
}

// Records survive closing and reopening a durable store.

export function durabilityScenarios(namespace: string): readonly DurabilityScenario[] {
  const ref = { namespace, name: 'arena' }
  return [
    {
      name: 'durability: completed writes survive a reopen with the same revisions',
      async before(store) {
        const build = await store.builds.create(minimalBuild(ref))
        return [
          await store.builds.update(completeBuild(ref), build),
          await store.servers.create(completeServer(ref)),
          await store.details.create(minimalDetail(ref)),
        ]
      },
      async after(store, [build, server, detail]) {
        assert.deepStrictEqual(await store.builds.get(ref), { record: completeBuild(ref), revision: build })
        assert.deepStrictEqual(await store.servers.list(), [{ record: completeServer(ref), revision: server }])
        assert.deepStrictEqual(await store.details.get(ref), { record: minimalDetail(ref), revision: detail })
        await store.servers.update(minimalServer(ref), server ?? '')
        await rejects('conflict', store.servers.update(completeServer(ref), server ?? ''))
      },
    },
    {
      name: 'durability: a write in flight during close either rejects or survives a reopen',
      async before(store) {
        const writes = range(20).map((n) => store.servers.create(minimalServer({ namespace, name: `arena-${n}` })))
        const [outcomes] = await Promise.all([Promise.allSettled(writes), store.close()])
        return outcomes.flatMap((outcome, n) => (outcome.status === 'fulfilled' ? [`arena-${n}`] : []))
      },
      async after(store, names) {
        const listed = new Set((await store.servers.list()).map(({ record }) => record.name))
        for (const name of names) assert.ok(listed.has(name), `${name} was created but is missing`)
      },
    },
    {
      name: 'durability: revisions are not reused after a reopen',
      async before(store) {
        const created = await store.servers.create(minimalServer(ref))
        const updated = await store.servers.update(completeServer(ref), created)
        await store.servers.delete(ref, updated)
        return [created, updated]
      },
      async after(store, old) {
        let revision = await store.servers.create(minimalServer(ref))
        for (let round = 0; round < 10; round++) {
          assert.ok(!old.includes(revision), `revision ${revision} was used twice`)
          for (const before of old) await rejects('conflict', store.servers.update(completeServer(ref), before))
          revision = await store.servers.update(minimalServer(ref), revision)
        }
      },
    },
  ]
}

// Collections, namespaces and names are independent; values are stored unchanged.

export function isolationScenarios(namespaces: readonly [string, string]): readonly Scenario[] {
  const [namespace, other] = namespaces
  const ref = { namespace, name: 'arena' }
  return [
    {
      name: 'close can be called several times',
      async run(store) {
        await Promise.all([store.close(), store.close()])
        await store.close()
      },
    },
    {
      name: 'records with the same name in different collections are independent',
      async run(store) {
        await store.builds.create(completeBuild(ref))
        await store.servers.create(completeServer(ref))
        const detail = await store.details.create(completeDetail(ref))
        // Deletes only the detail: for a build or a server, the store may also delete dependent records.
        await store.details.delete(ref, detail)
        assert.deepEqual((await store.builds.get(ref))?.record, completeBuild(ref))
        assert.deepEqual((await store.servers.get(ref))?.record, completeServer(ref))
        assert.equal(await store.details.get(ref), undefined)
      },
    },
    {
      name: 'records with the same name in different namespaces are independent',
      async run({ servers }) {
        const here = await servers.create(minimalServer(ref))
        const there = await servers.create(completeServer({ ...ref, namespace: other }))
        await rejects('conflict', servers.create(minimalServer(ref)))
        await servers.update(completeServer(ref), here)
        await servers.delete({ ...ref, namespace: other }, there)
        assert.deepEqual(
          (await servers.list()).map(({ record }) => record),
          [completeServer(ref)],
        )
      },
    },
    {
      name: 'names with dashes, dots and digits, or with a common prefix, are distinct',
      async run({ servers }) {
        const names = ['a', 'a-b', 'a.b', 'a-b.c', 'a.b-c', '0', '00', '1', 'a'.repeat(63), `${'a'.repeat(62)}b`]
        const records = names.map((name) => minimalServer({ namespace, name }))
        for (const record of records) await servers.create(record)
        for (const record of records) assert.deepEqual((await servers.get(record))?.record, record)
        assert.deepEqual(byName((await servers.list()).map(({ record }) => record)), byName(records))
      },
    },
    {
      name: 'values keep every character, including control characters',
      async run({ builds, details }) {
        const control = Array.from({ length: 0x20 }, (_, code) => String.fromCharCode(code)).join('')
        const texts = [
          `${control}\u007f\u0085\u00a0\u2028\u2029\ufeff`,
          'ĂĽ日本語العربية',
          '👩‍🚀🏳️‍🌈',
          '"\\/\'`${}',
          '',
          ' ',
        ]
        const detail = { ...minimalDetail(ref), players: texts }
        await details.create(detail)
        assert.deepStrictEqual((await details.get(ref))?.record, detail)
        const build = minimalBuild(ref)
        const buildMetadata = Object.fromEntries(texts.map((text, i) => [`key ${i} ${text}`, text]))
        await builds.create({ ...build, spec: { ...build.spec, buildMetadata } })
        assert.deepStrictEqual((await builds.get(ref))?.record.spec.buildMetadata, buildMetadata)
      },
    },
    {
      name: 'a record of 200 KB is stored unchanged',
      async run({ details }) {
        const large = (mark: string) => ({ ...minimalDetail(ref), players: [`${mark}é`.repeat(50_000), 'last'] })
        const created = await details.create(large('ab'))
        assert.deepEqual((await details.get(ref))?.record, large('ab'))
        const revision = await details.update(large('cd'), created)
        assert.deepEqual(await details.list(), [{ record: large('cd'), revision }])
        await details.update(minimalDetail(ref), revision)
        assert.deepEqual((await details.get(ref))?.record, minimalDetail(ref))
      },
    },
  ]
}

// Two hosts share a store, read each other's writes and watch them.

interface SharedScenario {
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
