/** How far the reader has scrolled in each step of the browser's history, so that Back leads to the same place. */

interface Entry {
  readonly entry: number
}

const tops = new Map<string, number>()
let entries = 0
let current = arrive()
history.scrollRestoration = 'manual'

/** The address has changed: by a link, or by Back or Forward. */
export function arriveAt(): void {
  current = arrive()
}

/** `part`: the page, or the name of a list. */
export function rememberPlace(part: string, top: number): void {
  tops.set(`${current} ${part}`, top)
}

/** In CSS pixels: 0 for a step that is new. */
export function rememberedPlace(part: string): number {
  return tops.get(`${current} ${part}`) ?? 0
}

/** A step that a link makes has no state yet. */
function arrive(): number {
  const known: Partial<Entry> | null = history.state
  if (known?.entry !== undefined) return known.entry
  // Unlike those of the page before a reload.
  const entry = performance.timeOrigin + ++entries
  history.replaceState({ entry } satisfies Entry, '')
  return entry
}
