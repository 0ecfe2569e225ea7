/** Opens a backend's default store, for fleets whose options name no store. */
import { existsSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { DefaultStore } from '../contracts/backend.js'
import { FleetError } from '../contracts/errors.js'
import type { Logger } from '../contracts/logger.js'
import type { Store, Versioned } from '../contracts/store.js'
import type { Ref } from '../rules/model/resources.js'
import { fileStore, type FileStoreOptions } from './file.js'
import { memoryStore } from './memory.js'

export async function openDefaultStore(store: DefaultStore, logger: Logger): Promise<Store> {
  switch (store.kind) {
    case 'memory':
      return memoryStore()
    case 'file':
      return store.startsEmpty === true ? emptied(fileOptions(store, logger)) : fileStore(fileOptions(store, logger))
    case 'own':
      return store.open()
  }
}

function fileOptions(store: FileDefault, logger: Logger): FileStoreOptions {
  const { directory, waitForDirectoryMs } = store
  return { directory, logger, ...(waitForDirectoryMs !== undefined && { waitForDirectoryMs }) }
}

type FileDefault = Extract<DefaultStore, { readonly kind: 'file' }>

/** In a directory whose records a start may delete. */
const markName = 'development'

/** The store is opened first, because that fails while another host uses it. */
async function emptied(options: FileStoreOptions): Promise<Store> {
  const { directory } = options
  const store = await fileStore(options)
  const collections = [store.builds, store.servers, store.details, ...(store.demand ? [store.demand] : [])]
  try {
    const mark = join(directory, markName)
    if (store.isNew !== true && !existsSync(mark)) await checkEmpty(directory, collections)
    await writeFile(mark, '', { mode: 0o600 })
    await store.acceptDamage?.()
    await Promise.all(collections.map((collection) => clear(collection)))
    return store
  } catch (error) {
    await store.close()
    throw error
  }
}

async function checkEmpty(directory: string, collections: readonly Listed[]): Promise<void> {
  const lists = await Promise.all(collections.map((collection) => collection.list()))
  if (lists.every(({ length }) => length === 0)) return
  const message = `the store in ${directory} has records of a fleet that is not for development, and a start for development would delete them: use another directory`
  throw new FleetError('directory-unusable', message)
}

type Listed = Pick<Store['servers'], 'delete'> & { list(): Promise<readonly Versioned<Ref>[]> }

async function clear(collection: Listed): Promise<void> {
  for (const { record, revision } of await collection.list()) await collection.delete(record, revision)
}
