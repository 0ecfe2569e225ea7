/** Opens the store that a backend names, when the host names none. */
import type { DefaultStore } from '../backend.js'
import type { Logger } from '../logger.js'
import type { Store } from '../store.js'
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
