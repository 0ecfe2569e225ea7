/** Tables for people. Pure. */
import { oneLine } from '../server/log.js'

/** Columns are as wide as their widest cell. An empty cell is shown as `-`. */
export function tableLines(head: readonly string[], rows: readonly (readonly string[])[]): readonly string[] {
  const lines = [head, ...rows.map((row) => row.map((cell) => (cell === '' ? '-' : oneLine(cell))))]
  const widths = head.map((_, column) => Math.max(...lines.map((line) => (line[column] ?? '').length)))
  return lines.map((line) =>
    line
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  )
}

/** `45s`, `12m`, `3h` or `2d` since an RFC 3339 time. */
export function ageSince(time: string | undefined, nowMs: number): string {
  if (time === undefined) return ''
  const seconds = Math.max(0, Math.round((nowMs - Date.parse(time)) / 1000))
  if (seconds < 120) return `${seconds}s`
  if (seconds < 7_200) return `${Math.floor(seconds / 60)}m`
  return seconds < 172_800 ? `${Math.floor(seconds / 3_600)}h` : `${Math.floor(seconds / 86_400)}d`
}
