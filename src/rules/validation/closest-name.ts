/** Guesses which name was meant by a misspelled one. Pure. */

/** Names longer than this are no misspellings, and would take long to compare. */
const maxLength = 60

/**
 * Returns the name that is closest to `name`: at most a third of its letters differ, or one of the two begins with the other
 * (`wait` and `waitMs`). Letter case does not matter. Returns undefined if none is close.
 */
export function closestName(name: string, known: readonly string[]): string | undefined {
  if (name.length > maxLength) return undefined
  const wanted = name.toLowerCase()
  let best: string | undefined
  let least = Math.max(1, Math.floor(wanted.length / 3)) + 1
  for (const candidate of known) {
    const distance = edits(wanted, candidate.toLowerCase())
    if (distance >= least) continue
    best = candidate
    least = distance
  }
  return best ?? (wanted.length < 3 ? undefined : known.find((one) => isExtension(wanted, one.toLowerCase())))
}

function isExtension(one: string, other: string): boolean {
  return one.startsWith(other) || other.startsWith(one)
}

/**
 * The number of letters to insert, delete, replace, or swap with the next one, to turn one text into the other (optimal string
 * alignment distance).
 */
function edits(from: string, to: string): number {
  let before: readonly number[] = []
  let row = Array.from({ length: to.length + 1 }, (_, column) => column)
  for (let i = 0; i < from.length; i++) {
    const next = [i + 1]
    for (let j = 0; j < to.length; j++) {
      const replaced = (row[j] ?? 0) + (from[i] === to[j] ? 0 : 1)
      const isSwapped = i > 0 && j > 0 && from[i] === to[j - 1] && from[i - 1] === to[j]
      const swapped = isSwapped ? (before[j - 1] ?? 0) + 1 : Infinity
      next.push(Math.min(replaced, swapped, (row[j + 1] ?? 0) + 1, (next[j] ?? 0) + 1))
    }
    before = row
    row = next
  }
  return row[to.length] ?? 0
}
