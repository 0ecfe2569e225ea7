/** Store scenarios: records survive closing and reopening a durable store. */
import assert from 'node:assert/strict'
import { completeBuild, completeServer, minimalBuild, minimalDetail, minimalServer } from '../records.js'
import { range, rejects, type DurabilityScenario } from './scenario.js'

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
