/** Renders only the rows that can be seen, so that a list of 10,000 scrolls like one of 50. */
import { useSignal } from '@preact/signals'
import type { ComponentChildren, VNode } from 'preact'
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks'

export interface VirtualListProps {
  readonly count: number
  /** In CSS pixels, the same for all rows. */
  readonly rowHeight: number
  readonly row: (index: number) => VNode | null
  /** For screen readers. */
  readonly label: string
  /** Shown above the rows, and stays there. */
  readonly head?: ComponentChildren
  readonly class?: string
  readonly role?: 'table' | 'log'
  /** Keeps the last row in view, unless the reader has scrolled up. */
  readonly followsEnd?: boolean
}

const extraRows = 8
/** With its borders. */
const headHeight = 34

export function VirtualList({
  count,
  rowHeight,
  row,
  label,
  head,
  role = 'table',
  followsEnd,
  ...rest
}: VirtualListProps) {
  const box = useRef<HTMLDivElement>(null)
  const atEnd = useRef(true)
  const view = useSignal({ top: 0, height: 600 })
  const measure = () => {
    const element = box.current
    if (!element) return
    atEnd.current = element.scrollTop + element.clientHeight >= element.scrollHeight - 2 * rowHeight
    const { top, height } = view.peek()
    if (top !== element.scrollTop || height !== element.clientHeight)
      view.value = { top: element.scrollTop, height: element.clientHeight }
  }
  useEffect(() => {
    const observer = new ResizeObserver(measure)
    if (box.current) observer.observe(box.current)
    return () => observer.disconnect()
  }, [])
  useLayoutEffect(() => {
    if (followsEnd && atEnd.current && box.current) box.current.scrollTop = box.current.scrollHeight
  }, [count, followsEnd])

  const { top, height } = view.value
  const first = Math.max(0, Math.min(Math.floor(top / rowHeight), count) - extraRows)
  const last = Math.min(count, Math.ceil((top + height) / rowHeight) + extraRows)
  const isTable = role === 'table'
  return (
    <div
      class={`virtual ${rest.class ?? ''}`}
      ref={box}
      tabIndex={0}
      role={role}
      aria-label={label}
      aria-rowcount={isTable ? count + 1 : undefined}
      onScroll={measure}
      style={isTable ? { height: `min(var(--list-height), ${count * rowHeight + headHeight}px)` } : undefined}
    >
      {head}
      <div class="spacer" role={isTable ? 'rowgroup' : undefined} style={{ height: `${count * rowHeight}px` }}>
        <div
          class="rows"
          role={isTable ? 'presentation' : undefined}
          style={{ transform: `translateY(${first * rowHeight}px)` }}
        >
          {Array.from({ length: Math.max(0, last - first) }, (_, index) => row(first + index))}
        </div>
      </div>
    </div>
  )
}
