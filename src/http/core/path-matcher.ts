/**
 * Finds the pattern that matches a path. Patterns without `:names` are looked up directly; the others are compared segment
 * by segment. Pure.
 */

export type Params = Readonly<Record<string, string>>

export interface Match<T> {
  readonly value: T
  /** Decoded. */
  readonly params: Params
}

/**
 * Paths are matched as sent. A percent-encoded segment does not match a fixed segment, and a path with a dot segment (`.` or
 * `..`, encoded or not) does not match any pattern. A trailing slash is optional. A `:name` never matches an empty segment.
 */
export function pathMatcher<T>(table: ReadonlyMap<string, T>): (path: string) => Match<T> | undefined {
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
    const part = parts[i] ?? ''
    if (!segment.startsWith(':')) {
      if (part !== segment) return undefined
      continue
    }
    const value = decoded(part)
    if (value === '' || value === '.' || value === '..') return undefined
    params[segment.slice(1)] = value
  }
  return params
}

/** Returns a segment with invalid percent-encoding unchanged: no resource can have that name. */
function decoded(text: string): string {
  if (!text.includes('%')) return text
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
