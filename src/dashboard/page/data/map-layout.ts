/** Where each square of the map of servers is. Pure. */

export interface MapGroup<T> {
  readonly name: string
  readonly items: readonly T[]
}

/** In CSS pixels. */
export interface PlacedGroup<T> extends MapGroup<T> {
  readonly left: number
  /** Of its first row of squares, below its name. */
  readonly top: number
  readonly columns: number
}

export interface MapLayout<T> {
  readonly groups: readonly PlacedGroup<T>[]
  /** From one square to the next, in CSS pixels. */
  readonly pitch: number
  readonly height: number
}

export const nameHeight = 20
const between = 16
const narrowest = 96
/** The largest squares with which the map is not higher than `highest`, or the smallest. */
const pitches = [18, 14, 11, 9, 7, 6, 5, 4]
const highest = 420

export function layOut<T>(groups: readonly MapGroup<T>[], width: number): MapLayout<T> {
  const layouts = pitches.map((pitch) => layOutAt(pitch, groups, width))
  const fitting = layouts.find(({ height }) => height <= highest) ?? layouts.at(-1)
  return fitting ?? { groups: [], pitch: 4, height: 0 }
}

/** Groups follow each other in lines. Each is wider than high. */
function layOutAt<T>(pitch: number, groups: readonly MapGroup<T>[], width: number): MapLayout<T> {
  const most = Math.max(1, Math.floor(width / pitch))
  const placed: PlacedGroup<T>[] = []
  let left = 0
  let top = 0
  let lineHeight = 0
  for (const group of groups) {
    const columns = Math.max(1, Math.min(most, Math.ceil(Math.sqrt(group.items.length * 2.5))))
    const ownWidth = Math.max(narrowest, columns * pitch)
    if (left > 0 && left + ownWidth > width) {
      top += lineHeight + between
      left = 0
      lineHeight = 0
    }
    placed.push({ ...group, left, top: top + nameHeight, columns })
    left += ownWidth + between
    lineHeight = Math.max(lineHeight, nameHeight + Math.ceil(group.items.length / columns) * pitch)
  }
  return { groups: placed, pitch, height: top + lineHeight }
}

/** What is at a point of the map, if anything. */
export function itemAt<T>({ groups, pitch }: MapLayout<T>, x: number, y: number): T | undefined {
  for (const { items, left, top, columns } of groups) {
    const column = Math.floor((x - left) / pitch)
    const row = Math.floor((y - top) / pitch)
    if (column < 0 || column >= columns || row < 0) continue
    const item = items[row * columns + column]
    if (item !== undefined) return item
  }
  return undefined
}
