/** Store scenarios: collections, namespaces and names are independent; values are stored unchanged. */
import assert from 'node:assert/strict'
import {
  completeBuild,
  completeDetail,
  completeServer,
  minimalBuild,
  minimalDetail,
  minimalServer,
} from '../records.js'
import { byName, rejects, type Scenario } from './scenario.js'

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
