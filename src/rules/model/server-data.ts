/** Labels, annotations, counters and lists of a server: data for choosing a server, and for its game. Immutable. */

/** A server's labels, annotations, counters and lists. */
export interface ServerData {
  /** Text by key, in the syntax of Kubernetes labels. Begin with the labels in the build's template. */
  readonly labels: Readonly<Record<string, string>>
  /** Any text by key. */
  readonly annotations: Readonly<Record<string, string>>
  /** The counters that the build's spec declares. */
  readonly counters: Readonly<Record<string, Counter>>
  /** The lists that the build's spec declares. */
  readonly lists: Readonly<Record<string, ValueList>>
}

/** A number from 0 to its capacity, such as the rooms in use. Both are at most 2^53 − 1. */
export interface Counter {
  readonly count: number
  readonly capacity: number
}

/** Distinct texts, at most as many as the capacity, such as the ids of rooms. */
export interface ValueList {
  readonly values: readonly string[]
  readonly capacity: number
}

/** A change of a server's data. Atomic. */
export interface ServerDataUpdate {
  /** Labels to set; null removes one. */
  readonly labels?: Readonly<Record<string, string | null>>
  /** Annotations to set; null removes one. */
  readonly annotations?: Readonly<Record<string, string | null>>
  readonly counters?: Readonly<Record<string, CounterUpdate>>
  readonly lists?: Readonly<Record<string, ListUpdate>>
}

/** `capacity` is set first. Only one of the others may be present. */
export interface CounterUpdate {
  readonly capacity?: number
  /** Amount to add. */
  readonly increment?: number
  /** Amount to subtract. */
  readonly decrement?: number
  /** The new count. */
  readonly count?: number
}

/** `capacity` is set first, then values are removed, then added. */
export interface ListUpdate {
  readonly capacity?: number
  /** Values to add at the end, unless the list has them. */
  readonly add?: readonly string[]
  /** Values to remove, if the list has them. */
  readonly remove?: readonly string[]
}

export const noData: ServerData = Object.freeze({ labels: {}, annotations: {}, counters: {}, lists: {} })

/** Returns undefined if there is nothing in it, so that most records have no data. */
export function dataOrNone(data: ServerData): ServerData | undefined {
  const { labels, annotations, counters, lists } = data
  return [labels, annotations, counters, lists].some((part) => Object.keys(part).length > 0) ? data : undefined
}
