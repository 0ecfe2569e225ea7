/** The last known container of each server, for lookups that must not call the engine. */
import { keyOf, type Ref } from '../../../src/rules/model/resources.js'
import type { Container, ListedContainer } from './instance.js'
import type { Identity } from './labels.js'

type ContainerID = Pick<Container, 'id' | 'identity'>

interface Entry extends ContainerID {
  /** Increases with every change, to tell which entries are newer than a list. */
  readonly sequence: number
}

export class ContainerCache {
  readonly #entries = new Map<string, Entry>()
  #sequence = 0

  /** Read this before requesting a list, then pass it to `replace` together with the list. */
  get sequence(): number {
    return this.#sequence
  }

  *heldPorts(): Generator<number> {
    for (const { identity } of this.#entries.values()) for (const port of identity.ports) yield port.public
  }

  *instanceNumbers(): Generator<number> {
    for (const { identity } of this.#entries.values()) yield identity.instanceNumber
  }

  /** Whether this container is the server's current one. */
  isCurrent(id: string, ref: Ref): boolean {
    return this.#entries.get(keyOf(ref))?.id === id
  }

  set({ id, identity }: { readonly id: string; readonly identity: Identity }): void {
    this.#entries.set(keyOf(identity.ref), { id, identity, sequence: ++this.#sequence })
  }

  /** Removes the container, unless the server now has a different one. */
  delete(id: string, ref: Ref): void {
    if (this.isCurrent(id, ref)) this.#entries.delete(keyOf(ref))
  }

  /** Replaces all entries, except newer ones, with a list that was requested at `sequence`. */
  replace(listed: readonly ListedContainer[], sequence: number): void {
    const ids = new Set(listed.map(({ id }) => id))
    for (const [key, entry] of this.#entries) {
      if (entry.sequence <= sequence && !ids.has(entry.id)) this.#entries.delete(key)
    }
    for (const container of listed) {
      const entry = this.#entries.get(keyOf(container.identity.ref))
      if (!entry || entry.sequence <= sequence) this.set(container)
    }
  }
}
