/** Guesses which name was meant by a misspelled one. Pure. */

/** Names longer than this are no misspellings, and would take long to compare. */
const maxLength = 60

/**
 * Returns the name that is most likely meant by `name`: the one it misspells, or else one that contains it (`players` and
 * `initialPlayers`) or that it abbreviates (`cmd` and `command`). Letter case does not matter. Returns undefined if there is
 * none.
 */
export function closestName(name: string, known: readonly string[]): string | undefined {
  const misspelled = misspelledName(name, known)
  if (misspelled !== undefined || name.length < 3 || name.length > maxLength) return misspelled
  const wanted = name.toLowerCase()
  const containing = known.find((one) => one.toLowerCase().includes(wanted))
  return containing ?? known.find((one) => isAbbreviation(wanted, one.toLowerCase()))
}

/**
 * Returns the name that is closest to `name`: at most a third of its letters differ, or one of the two begins with the other
 * (`wait` and `waitMs`). Letter case does not matter. Returns undefined if none is close.
 */
export function misspelledName(name: string, known: readonly string[]): string | undefined {
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

/** Whether `short` has some letters of `long`, in their order, the first among them. */
function isAbbreviation(short: string, long: string): boolean {
  if (short[0] !== long[0]) return false
  let matched = 0
  for (const letter of long) if (letter === short[matched]) matched++
  return matched === short.length
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
