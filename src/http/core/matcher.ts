/** Finds the pattern that a plain path means: exact ones at once, those with `:names` segment by segment. Pure. */

export type Params = Readonly<Record<string, string>>

export interface Match<T> {
  readonly value: T
  readonly params: Params
}

/** The first pattern of the table wins. A slash at the end of a path does not count, and a `:name` is never empty. */
export function matcher<T>(table: ReadonlyMap<string, T>): (path: string) => Match<T> | undefined {
  const exact = new Map<string, Match<T>>()
  const patterns: { readonly segments: readonly string[]; readonly value: T }[] = []
  for (const [pattern, value] of table) {
    if (pattern.includes('/:')) patterns.push({ segments: pattern.split('/'), value })
    else exact.set(pattern, { value, params: {} })
  }

  return (path) => {
    const bare = path.endsWith('/') ? path.slice(0, -1) : path
    const found = exact.get(bare)
    if (found !== undefined) return found
    const parts = bare.split('/')
    for (const { segments, value } of patterns) {
      const params = paramsOf(segments, parts)
      if (params !== undefined) return { value, params }
    }
    return undefined
  }
}

function paramsOf(segments: readonly string[], parts: readonly string[]): Params | undefined {
  if (segments.length !== parts.length) return undefined
  const params: Record<string, string> = {}
  for (const [i, segment] of segments.entries()) {
    const part = parts[i]
    if (!segment.startsWith(':')) {
      if (part !== segment) return undefined
    } else if (part) params[segment.slice(1)] = part
    else return undefined
  }
  return params
}
