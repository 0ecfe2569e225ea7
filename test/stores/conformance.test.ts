import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, test } from 'vitest'
import { fileStore } from '../../src/stores/file.js'
import { memoryStore } from '../../src/stores/memory.js'
import type { Store } from '../../src/contracts/store.js'
import { storeConformance } from '../../src/testing/store-conformance.js'
import { type SharedMemory, sharedMemory } from './shared-memory.js'

describe('the memory store', () => {
  const cases = storeConformance({ open: () => Promise.resolve(memoryStore()) })
  for (const { name, run } of cases) test(name, run)
})

describe('a shared memory store', () => {
  const memories = new WeakMap<Store, SharedMemory>()
  const of = (memory: SharedMemory) => {
    const store = memory.open()
    memories.set(store, memory)
    return Promise.resolve(store)
  }
  const again = (store: Store) => of(memories.get(store) ?? sharedMemory())
  for (const { name, run } of storeConformance({ open: () => of(sharedMemory()), reopen: again, openShared: again })) {
    test(name, run)
  }
})

describe('the file store', () => {
  const directoryOf = new WeakMap<Store, string>()
  let parent = ''
  beforeAll(async () => {
    parent = await mkdtemp(join(tmpdir(), 'gamekeeper-store-'))
  })
  afterAll(() => rm(parent, { recursive: true, force: true }))

  const openAt = async (directory: string) => {
    const store = await fileStore({ directory })
    directoryOf.set(store, directory)
    return store
  }
  const cases = storeConformance({
    open: async () => openAt(await mkdtemp(join(parent, 'case-'))),
    reopen: (closed) => openAt(directoryOf.get(closed) ?? ''),
  })
  for (const { name, run } of cases) test(name, run)
})
