/** Store scenarios: concurrent writes. */
import assert from 'node:assert/strict'
import { FleetError } from '../../contracts/errors.js'
import type { Versioned } from '../../contracts/store.js'
import type { Server } from '../../rules/model/resources.js'
import { completeServer, minimalBuild, minimalServer } from '../records.js'
import { range, type Scenario } from './scenario.js'

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
