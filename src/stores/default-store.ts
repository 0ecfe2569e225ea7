/** Opens the store that a backend names, when the host names none. */
import type { DefaultStore } from '../contracts/backend.js'
import type { Logger } from '../contracts/logger.js'
import type { Store } from '../contracts/store.js'
import { fileStore } from './file.js'
import { memoryStore } from './memory.js'

export async function openDefaultStore(named: DefaultStore, logger: Logger): Promise<Store> {
  switch (named.kind) {
    case 'memory':
      return memoryStore()
    case 'file':
      return fileStore({ directory: named.directory, logger })
    case 'own':
      return named.open()
  }
}
