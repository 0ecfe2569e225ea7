/** The difference between two texts, line by line. Pure. */

export interface DiffLine {
  readonly kind: 'same' | 'added' | 'removed'
  readonly text: string
}

/** The shortest difference, by the longest common subsequence. For texts of up to a few thousand lines. */
export function lineDiff(before: string, after: string): readonly DiffLine[] {
  const old = before.split('\n')
  const next = after.split('\n')
  const lengths = commonLengths(old, next)
  const at = (i: number, j: number) => lengths[i]?.[j] ?? 0
  const lines: DiffLine[] = []
  let i = 0
  let j = 0
  while (i < old.length || j < next.length) {
    const [a, b] = [old[i], next[j]]
    if (a !== undefined && a === b) {
      lines.push({ kind: 'same', text: a })
      i++
      j++
    } else if (a !== undefined && (b === undefined || at(i + 1, j) >= at(i, j + 1))) {
      lines.push({ kind: 'removed', text: a })
      i++
    } else {
      lines.push({ kind: 'added', text: b ?? '' })
      j++
    }
  }
  return lines
}

/** `[i][j]`: how many lines the rest of both texts from there have in common. */
function commonLengths(old: readonly string[], next: readonly string[]): readonly Uint32Array[] {
  const rows = Array.from({ length: old.length + 1 }, () => new Uint32Array(next.length + 1))
  for (let i = old.length - 1; i >= 0; i--) {
    const [row, below] = [rows[i], rows[i + 1]]
    if (!row || !below) continue
    for (let j = next.length - 1; j >= 0; j--) {
      row[j] = old[i] === next[j] ? (below[j + 1] ?? 0) + 1 : Math.max(below[j] ?? 0, row[j + 1] ?? 0)
    }
  }
  return rows
}
