/** Lets the keys `j` and `k` go through the rows of the table that is shown. */
import { useEffect } from 'preact/hooks'

export type Move = (by: 1 | -1) => void

const tables: Move[] = []

/** The table that was shown last gets the keys. */
export function useRowKeys(move: Move): void {
  useEffect(() => {
    tables.push(move)
    return () => void tables.splice(tables.indexOf(move), 1)
  })
}

/** Goes to the next row, or to the one before. In a view without a table, to the next build. */
export function moveRow(by: 1 | -1): void {
  const move = tables.at(-1)
  if (move) return move(by)
  const links = [...document.querySelectorAll<HTMLElement>('main .build h2 a')]
  const at = links.findIndex((link) => link === document.activeElement)
  links[Math.max(0, Math.min(at + by, links.length - 1))]?.focus()
}
