/** Opens a backend's default store, for fleets whose options name no store. */
import type { DefaultStore } from '../contracts/backend.js'
import type { Logger } from '../contracts/logger.js'
import type { Store } from '../contracts/store.js'
import { fileStore } from './file.js'
import { memoryStore } from './memory.js'

export async function openDefaultStore(store: DefaultStore, logger: Logger): Promise<Store> {
  switch (store.kind) {
    case 'memory':
      return memoryStore()
    case 'file':
      return fileStore({ directory: store.directory, logger })
    case 'own':
      return store.open()
  }
}
