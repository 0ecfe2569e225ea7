/**
 * What every store must do, as cases for any test runner. Each case opens a store of its own and closes it.
 *
 *     for (const { name, run } of storeConformance({ open: () => myStore() })) test(name, run)
 */
import assert from 'node:assert/strict'
import { FleetError, type ErrorCode } from '../errors.js'
import type { Build, Detail, Ref, Server } from '../rules/resources.js'
import type { Collection, Store, Versioned } from '../store.js'
import type { ConformanceCase } from './conformance.js'
import { completeBuild, completeDetail, completeServer, minimalBuild, minimalDetail, minimalServer } from './records.js'

export interface StoreConformanceOptions {
  /** Opens a store without records. */
  open(): Promise<Store>
  /** Opens again what a store that is closed had open. Without it, nothing is asked about records that last. */
  reopen?(closed: Store): Promise<Store>
  /** Two namespaces that the store can keep records in. Default: `default` and `other`. */
  readonly namespaces?: readonly [string, string]
}

export function storeConformance(options: StoreConformanceOptions): readonly ConformanceCase[] {
  const { namespaces = ['default', 'other'] } = options
  const [namespace] = namespaces
  const builds: Kind<Build> = {
    name: 'builds',
    of: (store) => store.builds,
    complete: completeBuild,
    minimal: minimalBuild,
    changed: (build, n) => ({ ...build, crashes: n }),
  }
  const servers: Kind<Server> = {
    name: 'servers',
    of: (store) => store.servers,
    complete: completeServer,
    minimal: minimalServer,
    changed: (server, n) => ({ ...server, node: `node-${n}` }),
  }
  const details: Kind<Detail> = {
    name: 'details',
    of: (store) => store.details,
    complete: completeDetail,
    minimal: minimalDetail,
    changed: (detail, n) => ({ ...detail, players: [`player-${n}`] }),
  }
  const scenarios: readonly Scenario[] = [
    ...collectionScenarios(builds, namespace),
    ...collectionScenarios(servers, namespace),
    ...collectionScenarios(details, namespace),
    ...storeScenarios(namespaces),
    ...concurrencyScenarios(namespace),
  ]
  const cases = scenarios.map(({ name, run }) => ({
    name,
    run: () => withStore(options.open, run),
  }))
  if (!options.reopen) return cases
  const reopen = options.reopen.bind(options)
  const lasting = lastingScenarios(namespace).map(({ name, before, after }) => ({
    name,
    run: () =>
      withStore(options.open, async (store) => {
        const known = await before(store)
        await store.close()
        await withStore(
          () => reopen(store),
          (again) => after(again, known),
        )
      }),
  }))
  return [...cases, ...lasting]
}

interface Kind<T extends Ref> {
  readonly name: string
  of(store: Store): Collection<T>
  complete(ref: Ref): T
  minimal(ref: Ref): T
  /** Different for every n. */
  changed(record: T, n: number): T
}

interface Scenario {
  readonly name: string
  readonly run: (store: Store) => Promise<void>
}

interface LastingScenario {
  readonly name: string
  /** Returns what `after` needs to know. */
  readonly before: (store: Store) => Promise<readonly string[]>
  readonly after: (store: Store, known: readonly string[]) => Promise<void>
}

async function withStore(open: () => Promise<Store>, run: (store: Store) => Promise<void>): Promise<void> {
  const store = await open()
  try {
    await run(store)
  } finally {
    await store.close()
  }
}

function collectionScenarios<T extends Ref>(kind: Kind<T>, namespace: string): readonly Scenario[] {
  const ref = { namespace, name: 'arena' }
  const scenario = (name: string, run: (collection: Collection<T>, store: Store) => Promise<void>): Scenario => ({
    name: `${kind.name}: ${name}`,
    run: (store) => run(kind.of(store), store),
  })
  return [
    scenario('a new store has no records', async (collection) => {
      assert.deepEqual(await collection.list(), [])
      assert.equal(await collection.get(ref), undefined)
    }),
    scenario('a created record is read back with the revision that create returned', async (collection) => {
      const record = kind.complete(ref)
      const revision = await collection.create(record)
      assert.deepEqual(await collection.get(ref), { record, revision })
      assert.deepEqual(await collection.list(), [{ record, revision }])
    }),
    scenario('an updated record replaces the one before, at a new revision', async (collection) => {
      const first = await collection.create(kind.complete(ref))
      const record = kind.changed(kind.minimal(ref), 1)
      const revision = await collection.update(record, first)
      assert.notEqual(revision, first)
      assert.deepEqual(await collection.get(ref), { record, revision })
      assert.deepEqual(await collection.list(), [{ record, revision }])
    }),
    scenario('an update that changes nothing is a write as well', async (collection) => {
      const first = await collection.create(kind.complete(ref))
      assert.notEqual(await collection.update(kind.complete(ref), first), first)
      await rejects('conflict', collection.update(kind.complete(ref), first))
    }),
    scenario('a deleted record is gone, and its name is free', async (collection) => {
      await collection.delete(ref, await collection.create(kind.complete(ref)))
      assert.equal(await collection.get(ref), undefined)
      assert.deepEqual(await collection.list(), [])
      await collection.create(kind.minimal(ref))
      assert.deepEqual((await collection.get(ref))?.record, kind.minimal(ref))
    }),
    scenario('creating a name that is taken is a conflict and changes nothing', async (collection) => {
      const revision = await collection.create(kind.complete(ref))
      await rejects('conflict', collection.create(kind.minimal(ref)))
      assert.deepEqual(await collection.get(ref), { record: kind.complete(ref), revision })
    }),
    scenario('updating at an old revision is a conflict and changes nothing', async (collection) => {
      const old = await collection.create(kind.complete(ref))
      const revision = await collection.update(kind.changed(kind.complete(ref), 1), old)
      await rejects('conflict', collection.update(kind.changed(kind.complete(ref), 2), old))
      assert.deepEqual(await collection.get(ref), { record: kind.changed(kind.complete(ref), 1), revision })
    }),
    scenario('updating what is not there is not-found and creates nothing', async (collection) => {
      const revision = await collection.create(kind.complete(ref))
      const other = { ...ref, name: 'arena-2' }
      await rejects('not-found', collection.update(kind.complete(other), revision))
      assert.equal(await collection.get(other), undefined)
      await collection.delete(ref, revision)
      await rejects('not-found', collection.update(kind.complete(ref), revision))
      assert.deepEqual(await collection.list(), [])
    }),
    scenario('deleting at an old revision is a conflict and deletes nothing', async (collection) => {
      const old = await collection.create(kind.complete(ref))
      const revision = await collection.update(kind.changed(kind.complete(ref), 1), old)
      await rejects('conflict', collection.delete(ref, old))
      assert.equal((await collection.get(ref))?.revision, revision)
    }),
    scenario('deleting what is not there is success', async (collection) => {
      const revision = await collection.create(kind.complete(ref))
      await collection.delete({ ...ref, name: 'arena-2' }, revision)
      await collection.delete(ref, revision)
      await collection.delete(ref, revision)
    }),
    scenario('a revision of a deleted record means nothing to a later one of that name', async (collection) => {
      const seen = new Set<string>()
      for (let round = 0; round < 5; round++) {
        const created = await collection.create(kind.complete(ref))
        const updated = await collection.update(kind.complete(ref), created)
        for (const old of seen) {
          await rejects('conflict', collection.update(kind.minimal(ref), old))
          await rejects('conflict', collection.delete(ref, old))
        }
        for (const revision of [created, updated]) {
          assert.ok(!seen.has(revision), `revision ${revision} was given out twice`)
          seen.add(revision)
        }
        await collection.delete(ref, updated)
      }
    }),
    scenario('a revision that the store never gave out is a conflict', async (collection) => {
      await collection.create(kind.complete(ref))
      for (const foreign of ['', '0', 'never', '-1', 'NaN', '1e0']) {
        await rejects('conflict', collection.update(kind.minimal(ref), foreign))
        await rejects('conflict', collection.delete(ref, foreign))
      }
    }),
    scenario('a record comes back deeply equal, with or without its optional fields', async (collection) => {
      const records = [kind.complete(ref), kind.minimal({ ...ref, name: 'arena-2' })]
      for (const record of records) await collection.create(record)
      for (const record of records) assert.deepStrictEqual((await collection.get(record))?.record, record)
      const listed = (await collection.list()).map(({ record }) => record)
      assert.deepStrictEqual(byName(listed), byName(records))
    }),
    scenario('a call whose signal has fired rejects with aborted and does nothing', async (collection) => {
      const revision = await collection.create(kind.complete(ref))
      const signal = AbortSignal.abort(new Error('the caller left'))
      await rejects('aborted', collection.get(ref, { signal }))
      await rejects('aborted', collection.list({ signal }))
      await rejects('aborted', collection.create(kind.complete({ ...ref, name: 'arena-2' }), { signal }))
      await rejects('aborted', collection.update(kind.minimal(ref), revision, { signal }))
      await rejects('aborted', collection.delete(ref, revision, { signal }))
      assert.deepEqual(await collection.list(), [{ record: kind.complete(ref), revision }])
    }),
    scenario('a signal that does not fire changes nothing', async (collection) => {
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

function storeScenarios(namespaces: readonly [string, string]): readonly Scenario[] {
  const [namespace, other] = namespaces
  const ref = { namespace, name: 'arena' }
  return [
    {
      name: 'closing twice is closing once',
      async run(store) {
        await Promise.all([store.close(), store.close()])
        await store.close()
      },
    },
    {
      name: 'a name can be in every collection at once, each on its own',
      async run(store) {
        await store.builds.create(completeBuild(ref))
        const server = await store.servers.create(completeServer(ref))
        await store.details.create(completeDetail(ref))
        await store.servers.delete(ref, server)
        assert.deepEqual((await store.builds.get(ref))?.record, completeBuild(ref))
        assert.equal(await store.servers.get(ref), undefined)
        assert.deepEqual((await store.details.get(ref))?.record, completeDetail(ref))
      },
    },
    {
      name: 'a name can be in two namespaces at once, each on its own',
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
      name: 'names with dashes, dots and digits, and names that begin alike, stay apart',
      async run({ servers }) {
        const names = ['a', 'a-b', 'a.b', 'a-b.c', 'a.b-c', '0', '00', '1', 'a'.repeat(63), `${'a'.repeat(62)}b`]
        const records = names.map((name) => minimalServer({ namespace, name }))
        for (const record of records) await servers.create(record)
        for (const record of records) assert.deepEqual((await servers.get(record))?.record, record)
        assert.deepEqual(byName((await servers.list()).map(({ record }) => record)), byName(records))
      },
    },
    {
      name: 'values keep every character, control characters included',
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
      name: 'a record of 200 KB is kept like a small one',
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

function concurrencyScenarios(namespace: string): readonly Scenario[] {
  const ref = { namespace, name: 'arena' }
  return [
    {
      name: 'of many that create one name at once, one succeeds',
      async run({ servers }) {
        const outcomes = await Promise.allSettled(
          range(20).map((n) => servers.create({ ...minimalServer(ref), node: `node-${n}` })),
        )
        const winner = onlyWinner(outcomes)
        assert.equal((await servers.get(ref))?.record.node, `node-${winner}`)
      },
    },
    {
      name: 'of many that update one revision at once, one succeeds, round after round',
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
      name: 'an update and a delete of one revision at once: one succeeds',
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
      name: 'counting up by read and compare-and-swap loses no count',
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
      name: 'a write that resolved is seen by every read that begins after it',
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
      name: 'a list beside writes shows every untouched record once, and every other as it was written',
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
          assert.equal(new Set(listed.map(({ record }) => record.name)).size, listed.length, 'a record came twice')
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

function lastingScenarios(namespace: string): readonly LastingScenario[] {
  const ref = { namespace, name: 'arena' }
  return [
    {
      name: 'what resolved before close is there after opening again, at the same revisions',
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
      name: 'writes under way when close is called are there after opening again, or rejected',
      async before(store) {
        const writes = range(20).map((n) => store.servers.create(minimalServer({ namespace, name: `arena-${n}` })))
        const [outcomes] = await Promise.all([Promise.allSettled(writes), store.close()])
        return outcomes.flatMap((outcome, n) => (outcome.status === 'fulfilled' ? [`arena-${n}`] : []))
      },
      async after(store, names) {
        const listed = new Set((await store.servers.list()).map(({ record }) => record.name))
        for (const name of names) assert.ok(listed.has(name), `${name} was created and is gone`)
      },
    },
    {
      name: 'a revision from before is never given out again after opening again',
      async before(store) {
        const created = await store.servers.create(minimalServer(ref))
        const updated = await store.servers.update(completeServer(ref), created)
        await store.servers.delete(ref, updated)
        return [created, updated]
      },
      async after(store, old) {
        let revision = await store.servers.create(minimalServer(ref))
        for (let round = 0; round < 10; round++) {
          assert.ok(!old.includes(revision), `revision ${revision} was given out twice`)
          for (const before of old) await rejects('conflict', store.servers.update(completeServer(ref), before))
          revision = await store.servers.update(minimalServer(ref), revision)
        }
      },
    },
  ]
}

async function rejects(code: ErrorCode, promise: Promise<unknown>): Promise<void> {
  const outcome = await promise.then(
    (value) => ({ value }),
    (error: unknown) => ({ error }),
  )
  if ('value' in outcome) assert.fail(`expected a rejection with ${code}, but it resolved to ${String(outcome.value)}`)
  assert.ok(
    FleetError.is(outcome.error, code),
    `expected a rejection with ${code}, but it was ${String(outcome.error)}`,
  )
}

/** The index of the one that succeeded; all others must have met a conflict. */
function onlyWinner(outcomes: readonly PromiseSettledResult<unknown>[]): number {
  const winners = outcomes.flatMap((outcome, n) => (outcome.status === 'fulfilled' ? [n] : []))
  assert.equal(winners.length, 1, `${winners.length} of ${outcomes.length} succeeded`)
  for (const outcome of outcomes) {
    if (outcome.status === 'rejected') assert.ok(FleetError.is(outcome.reason, 'conflict'), String(outcome.reason))
  }
  return winners[0] ?? -1
}

function byName<T extends Ref>(records: readonly T[]): readonly T[] {
  return records.toSorted((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0))
}

function range(count: number): readonly number[] {
  return Array.from({ length: count }, (_, n) => n)
}
