/**
 * Divides a list into pages. Items are ordered by creation time, then namespace and name, none of which ever changes: an item that
 * exists while a caller reads all pages is on exactly one of them, whatever is created or deleted meanwhile. Pure.
 */

/** An item's position in the list. */
export interface Position {
  /** Wall time in ms. */
  readonly createdAt: number
  readonly namespace: string
  readonly name: string
}

export function comparePositions(a: Position, b: Position): number {
  return a.createdAt - b.createdAt || compareText(a.namespace, b.namespace) || compareText(a.name, b.name)
}

/** Returns the first `count` items after `after`, in order. Sorts only a few times `count` items, however many there are. */
export function firstAfter<T>(
  items: Iterable<T>,
  positionOf: (item: T) => Position,
  after: Position | undefined,
  count: number,
): readonly T[] {
  let found: T[] = []
  /** No item from here on is among the first `count`. */
  let end: Position | undefined
  const keepFirst = () => {
    found = found.toSorted((a, b) => comparePositions(positionOf(a), positionOf(b))).slice(0, count)
    const last = found.at(-1)
    if (last !== undefined && found.length === count) end = positionOf(last)
  }
  for (const item of items) {
    const position = positionOf(item)
    if (after !== undefined && comparePositions(position, after) <= 0) continue
    if (end !== undefined && comparePositions(position, end) >= 0) continue
    found.push(item)
    if (found.length >= 2 * count) keepFirst()
  }
  keepFirst()
  return found
}

function compareText(a: string, b: string): number {
  return a === b ? 0 : a < b ? -1 : 1
}
