/** A table of any length: a head, and only those rows that can be seen. */
import { useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useEffect } from 'preact/hooks'
import { VirtualList } from './virtual-list.js'

export interface Column<T> {
  readonly name: string
  readonly cell: (row: T) => ComponentChildren
  /** Shown on hover, where the cell may be cut. */
  readonly title?: (row: T) => string | undefined
  readonly class?: string
}

export interface TableProps<T> {
  /** For screen readers. */
  readonly label: string
  /** Names the layout of its columns in the style sheet. */
  readonly kind: string
  readonly columns: readonly Column<T>[]
  readonly rows: readonly T[]
  readonly keyOf: (row: T) => string | number
  /** In CSS pixels, for screens on which a row does not fit in one line. Default: enough for a finger. */
  readonly narrowRowHeight?: number
}

const rowHeight = 36
const fingerHeight = 44

export function Table<T>({ label, kind, columns, rows, keyOf, narrowRowHeight = fingerHeight }: TableProps<T>) {
  const isNarrow = useNarrow()
  const head = (
    <div class={`row head ${kind}`} role="row" aria-rowindex={1}>
      {columns.map((column) => (
        <span key={column.name} role="columnheader" class={column.class}>
          {column.name}
        </span>
      ))}
    </div>
  )
  return (
    <VirtualList
      label={label}
      class={`${kind}-table`}
      count={rows.length}
      rowHeight={isNarrow ? narrowRowHeight : rowHeight}
      head={head}
      row={(index) => {
        const row = rows[index]
        if (row === undefined) return null
        return (
          <div key={keyOf(row)} class={`row ${kind}`} role="row" aria-rowindex={index + 2}>
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
