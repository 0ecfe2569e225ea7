/** Store scenarios: get, list, create, update and delete in one collection. */
import assert from 'node:assert/strict'
import type { Collection, Store } from '../../contracts/store.js'
import type { Ref } from '../../rules/model/resources.js'
import { byName, rejects, type Kind, type Scenario } from './scenario.js'

export function collectionScenarios<T extends Ref>(kind: Kind<T>, namespace: string): readonly Scenario[] {
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
