/** Tables of the command line: columns that fit the terminal, and rows that are painted again in place. Pure but for what it prints. */
import { oneLine } from '../server/log.js'
import type { Colour, Terminal } from './terminal.js'

export interface Column {
  readonly head: string
  /** `id`: cut to its beginning before anything else is. `text`: cut last, since it says why. `fixed`: never cut. */
  readonly cut?: 'id' | 'text' | 'fixed'
  /** The colour of a cell. */
  readonly colourOf?: (cell: string) => Colour | undefined
}

/** How much of an id, and of a text, is shown at least. */
const idWidth = 9
const textWidth = 20
const gap = '  '

/** The widths of columns that were printed before: a later row stays below them. */
export type Widths = number[]

/**
 * The head and a line for each row. An empty cell is shown as `-`. With a width, columns without any cell are left out, and ids and then texts are
 * cut until the lines fit; what is piped is whole. With `widths`, columns are at least as wide as before.
 */
export function tableLines(
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
  { width, paint, widths = [] }: { width?: number | undefined; paint: Terminal['paint']; widths?: Widths },
): { readonly head: string; readonly lines: readonly string[] } {
  const cells = rows.map((row) => row.map((cell) => (cell === '' ? '-' : oneLine(cell))))
  const isShown = columns.map((_, i) => width === undefined || rows.length === 0 || rows.some((row) => row[i] !== ''))
  const own = columns.map(({ head }, i) =>
    isShown[i] ? Math.max(head.length, widths[i] ?? 0, ...cells.map((row) => row[i]?.length ?? 0)) : 0,
  )
  if (width !== undefined) fit(columns, own, width)
  for (const [i, one] of own.entries()) widths[i] = one
  const line = (row: readonly string[], colour: (column: Column, cell: string) => Colour | undefined) =>
    columns
      .flatMap((column, i) => {
        if (!isShown[i]) return []
        const cell = shortened(row[i] ?? '', own[i] ?? 0)
        const found = colour(column, row[i] ?? '')
        const blanks = ' '.repeat(Math.max(0, (own[i] ?? 0) - cell.length))
        return [`${found ? paint(found, cell) : cell}${blanks}`]
      })
      .join(gap)
      .trimEnd()
  const heads = columns.map(({ head }) => head)
  return {
    head: paint(
      'bold',
      line(heads, () => undefined),
    ),
    lines: cells.map((row) => line(row, ({ colourOf }, cell) => colourOf?.(cell))),
  }
}

/** Takes what is too much from the ids, then from the texts, and then from the widest column that may be cut. */
function fit(columns: readonly Column[], widths: number[], width: number): void {
  const excess = () => widths.filter((one) => one > 0).reduce((sum, one) => sum + one + gap.length, -gap.length) - width
  const cutTo = (i: number, least: number) => {
    const now = widths[i] ?? 0
    widths[i] = Math.max(Math.min(now, least), now - Math.max(0, excess()))
  }
  for (const kind of ['id', 'text'] as const)
    for (const [i, { cut, head }] of columns.entries())
      if (cut === kind && widths[i] !== 0) cutTo(i, Math.max(head.length, kind === 'id' ? idWidth : textWidth))
  for (let i = widest(columns, widths); excess() > 0 && i !== undefined; i = widest(columns, widths))
    widths[i] = (widths[i] ?? 1) - 1
}

function widest(columns: readonly Column[], widths: readonly number[]): number | undefined {
  let found: number | undefined
  for (const [i, { cut, head }] of columns.entries()) {
    const one = widths[i] ?? 0
    if (cut !== 'fixed' && one > Math.max(idWidth, head.length) && one > (widths[found ?? -1] ?? 0)) found = i
  }
  return found
}

function shortened(cell: string, width: number): string {
  return cell.length <= width ? cell : `${cell.slice(0, Math.max(0, width - 1))}…`
}
