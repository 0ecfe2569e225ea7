import { expect, test } from 'vitest'
import { fileStore } from '../../src/stores/file.js'
import type { Store } from '../../src/contracts/store.js'
import { minimalBuild, minimalDetail, minimalServer } from '../../src/testing/records.js'
import { temporaryDirectory } from './temporary.js'

const ref = { namespace: 'default', name: 'arena' }

async function withStore(run: (store: Store, directory: string) => Promise<void>): Promise<void> {
  const directory = await temporaryDirectory()
  const store = await fileStore({ directory })
  await run(store, directory)
  await store.close()
}

test('a thousand concurrent callers each write their own record', () =>
  withStore(async ({ servers }) => {
    const records = Array.from({ length: 1_000 }, (_, n) => minimalServer({ namespace: 'default', name: `arena-${n}` }))
    const created = await Promise.all(records.map((record) => servers.create(record)))
    const updated = await Promise.all(
      records.map((record, n) => servers.update({ ...record, node: `node-${n}` }, created[n] ?? '')),
    )
    expect(new Set([...created, ...updated]).size).toBe(2_000)
    const listed = new Map((await servers.list()).map((versioned) => [versioned.record.name, versioned]))
    for (const [n, record] of records.entries()) {
      expect(listed.get(record.name)).toEqual({ record: { ...record, node: `node-${n}` }, revision: updated[n] })
    }
  }))

test('a failed condition does not affect other writes of its group', () =>
  withStore(async ({ servers }) => {
    const revision = await servers.create(minimalServer(ref))
    const other = { ...ref, name: 'arena-2' }
    const outcomes = await Promise.allSettled([
      servers.create(minimalServer(ref)),
      servers.create(minimalServer(other)),
      servers.update(minimalServer({ ...ref, name: 'arena-3' }), revision),
      servers.update({ ...minimalServer(ref), node: 'node-1' }, revision),
      servers.delete(ref, revision),
    ])
    expect(outcomes.map((one) => (one.status === 'rejected' ? one.reason.code : one.status))).toEqual([
      'conflict',
      'fulfilled',
      'not-found',
      'fulfilled',
      'conflict',
    ])
    expect((await servers.list()).map(({ record }) => record.name).toSorted()).toEqual(['arena', 'arena-2'])
  }))

test('a write whose signal fires before its transaction is skipped', () =>
  withStore(async ({ servers }) => {
    const caller = new AbortController()
    const write = servers.create(minimalServer(ref), { signal: caller.signal })
    caller.abort(new Error('the caller left'))
    await expect(write).rejects.toMatchObject({ code: 'aborted', cause: new Error('the caller left') })
    const other = { ...ref, name: 'arena-2' }
    await servers.create(minimalServer(other))
    expect((await servers.list()).map(({ record }) => record.name)).toEqual(['arena-2'])
  }))

test('a signal that fires after a write has no effect', () =>
  withStore(async ({ servers }) => {
    const caller = new AbortController()
    const revision = await servers.create(minimalServer(ref), { signal: caller.signal })
    caller.abort()
    expect((await servers.get(ref))?.revision).toBe(revision)
  }))

test('unusual keys and strings are stored unchanged', () =>
  withStore(async ({ builds }) => {
    const build = minimalBuild(ref)
    const template: unknown = JSON.parse('{"__proto__":{"a":1},"constructor":null,"spec":{"half":"\\ud83d","n":1e-7}}')
    await builds.create({ ...build, spec: { ...build.spec, template: Object(template) } })
    const read = await builds.get(ref)
    expect(JSON.stringify(read?.record.spec.template)).toBe(JSON.stringify(template))
  }))

test('a write whose name is too long rejects with invalid, and other writes succeed', () =>
  withStore(async ({ details }) => {
    const long = details.create(minimalDetail({ ...ref, name: 'a'.repeat(2_000) }))
    const short = details.create(minimalDetail(ref))
    await expect(long).rejects.toMatchObject({ code: 'invalid' })
    await short
    expect(await details.list()).toHaveLength(1)
  }))

test('changing a record after a write or read does not change the stored one', () =>
  withStore(async ({ details }) => {
    const record = { ...minimalDetail(ref), players: ['amie'] }
    const creating = details.create(record)
    record.players.push('too late')
    await creating
    expect((await details.get(ref))?.record.players).toEqual(['amie'])
  }))
