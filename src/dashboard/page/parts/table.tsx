/** A table of any length: a head, by which it is sorted, and only those rows that can be seen. */
import { useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { changeQuery, route } from '../data/router.js'
import { useRowKeys } from './row-keys.js'
import { VirtualList } from './virtual-list.js'

export interface Column<T> {
  readonly name: string
  readonly cell: (row: T) => ComponentChildren
  /** Shown on hover, where the cell may be cut. */
  readonly title?: (row: T) => string | undefined
  readonly class?: string
}

/** By name of a column, what its rows are sorted by. */
export type Sorts<T> = Readonly<Record<string, (row: T) => string | number>>

export interface TableProps<T> {
  /** For screen readers. */
  readonly label: string
  /** Names the layout of its columns in the style sheet. */
  readonly kind: string
  readonly columns: readonly Column<T>[]
  readonly rows: readonly T[]
  readonly keyOf: (row: T) => string | number
  /** The columns by whose head it can be sorted. The order is kept in the address. */
  readonly sorts?: Sorts<T>
  /** In CSS pixels, for screens on which a row does not fit in one line. Default: enough for a finger. */
  readonly narrowRowHeight?: number
  /** Called when the reader comes to the last rows. */
  readonly onEnd?: () => void
}

const usualRowHeight = 36
const fingerHeight = 44

export function Table<T>(props: TableProps<T>) {
  const { label, kind, columns, keyOf, sorts = {}, narrowRowHeight = fingerHeight, onEnd } = props
  const isNarrow = useNarrow()
  const rowHeight = isNarrow ? narrowRowHeight : usualRowHeight
  const order = orderIn(route.value.query['sort'] ?? '')
  const rows = sorted(props.rows, sorts[order.column], order.isDescending)
  const box = useRef<HTMLDivElement>(null)
  /** The row that has, or gets, the focus. */
  const chosen = useRef<string | number | undefined>(undefined)
  const isToFocus = useRef(false)
  useRowKeys((by) => {
    const at = rows.findIndex((row) => keyOf(row) === chosen.current)
    const next = Math.max(0, Math.min(at + by, rows.length - 1))
    const row = rows[next]
    if (row === undefined || !box.current) return
    chosen.current = keyOf(row)
    scrollToRow(box.current, next, rowHeight)
    const shown = box.current.querySelector<HTMLElement>(`[aria-rowindex="${next + 2}"]`)
    // A row that is out of view is drawn after the list has scrolled.
    if (shown) shown.focus({ preventScroll: true })
    else isToFocus.current = true
  })
  const head = (
    <div class={`row head ${kind}`} role="row" aria-rowindex={1}>
      {columns.map(({ name, class: kindOfColumn }) => {
        const isSorted = order.column === name && name in sorts
        const direction = order.isDescending ? 'descending' : 'ascending'
        return (
          <span key={name} role="columnheader" class={kindOfColumn} aria-sort={isSorted ? direction : undefined}>
            {name in sorts ? (
              <button type="button" class="sort" onClick={() => changeQuery({ sort: nextOrder(name, order) })}>
                {name}
                {isSorted ? <span aria-hidden="true">{order.isDescending ? ' ▼' : ' ▲'}</span> : null}
              </button>
            ) : (
              name
            )}
          </span>
        )
      })}
    </div>
  )
  return (
    <VirtualList
      box={box}
      label={label}
      class={`${kind}-table`}
      count={rows.length}
      rowHeight={rowHeight}
      head={head}
      onEnd={onEnd}
      row={(index) => {
        const row = rows[index]
        if (row === undefined) return null
        const key = keyOf(row)
        const focusIfChosen = (element: HTMLElement | null) => {
          if (!element || !isToFocus.current || key !== chosen.current) return
          isToFocus.current = false
          element.focus({ preventScroll: true })
        }
        return (
          <div
            key={key}
            ref={focusIfChosen}
            class={`row ${kind}`}
            role="row"
            tabIndex={-1}
            aria-rowindex={index + 2}
            onFocusIn={() => (chosen.current = key)}
            onKeyDown={followLink}
          >
            {columns.map((column) => (
              <span key={column.name} role="cell" class={column.class} title={column.title?.(row)}>
                {column.cell(row)}
              </span>
            ))}
          </div>
        )
      }}
    />
  )
}

interface Order {
  readonly column: string
  readonly isDescending: boolean
}

function orderIn(text: string): Order {
  return text.startsWith('-') ? { column: text.slice(1), isDescending: true } : { column: text, isDescending: false }
}

/** Up, down, and as it was. */
function nextOrder(name: string, { column, isDescending }: Order): string {
  if (column !== name) return name
  return isDescending ? '' : `-${name}`
}

/** Rows that are equal keep their order. */
function sorted<T>(
  rows: readonly T[],
  by: ((row: T) => string | number) | undefined,
  isDescending: boolean,
): readonly T[] {
  if (by === undefined) return rows
  const direction = isDescending ? -1 : 1
  return rows
    .map((row) => ({ row, value: by(row) }))
    .toSorted((a, b) => (a.value === b.value ? 0 : a.value < b.value ? -direction : direction))
    .map(({ row }) => row)
}

function scrollToRow(box: HTMLElement, index: number, rowHeight: number): void {
  const top = index * rowHeight
  const head = box.querySelector<HTMLElement>('.row.head')?.offsetHeight ?? 0
  const height = box.clientHeight - head
  if (top < box.scrollTop) box.scrollTop = top
  else if (top + rowHeight > box.scrollTop + height) box.scrollTop = top + rowHeight - height
}

function followLink(event: KeyboardEvent): void {
  const { key, target, currentTarget } = event
  if (key === 'Enter' && target === currentTarget && currentTarget instanceof HTMLElement)
    currentTarget.querySelector('a')?.click()
}

/** As in the style sheet. */
const narrow = matchMedia('(max-width: 760px)')

function useNarrow(): boolean {
  const isNarrow = useSignal(narrow.matches)
  useEffect(() => {
    const onChange = () => (isNarrow.value = narrow.matches)
    narrow.addEventListener('change', onChange)
    return () => narrow.removeEventListener('change', onChange)
  }, [])
  return isNarrow.value
}
