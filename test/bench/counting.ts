/** Counts the calls that a fleet makes to its store and backend. */
import type { Backend, Store } from 'gamekeeper'
import type { MemoryBackend } from 'gamekeeper/memory'
import { memoryStore } from '../../src/stores/memory.js'

/** Number of calls by method, such as `servers.update` or `create`. */
export class Calls {
  #counts: Record<string, number> = {}

  readonly count = (name: string) => {
    this.#counts[name] = (this.#counts[name] ?? 0) + 1
  }

  get total(): number {
    return Object.values(this.#counts).reduce((sum, count) => sum + count, 0)
  }

  /** The counts formatted as text. */
  get summary(): string {
    return Object.entries(this.#counts)
      .map(([name, count]) => `${count} × ${name}`)
      .join(', ')
  }

  reset(): void {
    this.#counts = {}
  }
}

export function countingStore(calls: Calls): Store {
  const store = memoryStore()
  return {
    shared: store.shared,
    builds: counting(store.builds, (method) => calls.count(`builds.${method}`)),
    servers: counting(store.servers, (method) => calls.count(`servers.${method}`)),
    details: counting(store.details, (method) => calls.count(`details.${method}`)),
    close: () => store.close(),
  }
}

export function countingBackend(calls: Calls): (backend: MemoryBackend) => Backend {
  return (backend) => counting(backend, calls.count)
}

function counting<T extends object>(target: T, count: (method: string) => void): T {
  return new Proxy(target, {
    get(_, name) {
      const value: unknown = Reflect.get(target, name)
      if (typeof value !== 'function') return value
      return (...args: readonly unknown[]) => {
        count(String(name))
        return Reflect.apply(value, target, args)
      }
    },
  })
}
