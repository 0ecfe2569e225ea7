/** Renders only the rows that can be seen, so that a list of 10,000 scrolls like one of 50. */
import { useSignal } from '@preact/signals'
import type { ComponentChildren, RefObject, VNode } from 'preact'
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks'
import { rememberedPlace, rememberPlace } from '../data/scroll-places.js'

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
  /** Gets the element that scrolls. */
  readonly box?: RefObject<HTMLDivElement | null>
  /** Called when the reader comes to the last rows. */
  readonly onEnd?: (() => void) | undefined
}

const extraRows = 8
/** Scrolling renders anew only when the first row in view is in another group of this many. */
const rowsPerStep = 4
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
  onEnd,
  ...rest
}: VirtualListProps) {
  const own = useRef<HTMLDivElement>(null)
  const { box = own } = rest
  const atEnd = useRef(true)
  const view = useSignal({ top: 0, height: 600 })
  const measure = () => {
    const element = box.current
    if (!element) return
    atEnd.current = element.scrollTop + element.clientHeight >= element.scrollHeight - 2 * rowHeight
    if (role === 'table') rememberPlace(label, element.scrollTop)
    if (element.scrollTop > 0 && atEnd.current) onEnd?.()
    const step = rowsPerStep * rowHeight
    const next = { top: Math.floor(element.scrollTop / step) * step, height: element.clientHeight + step }
    const { top, height } = view.peek()
    if (top !== next.top || height !== next.height) view.value = next
  }
  useEffect(() => {
    const observer = new ResizeObserver(measure)
    if (box.current) observer.observe(box.current)
    return () => observer.disconnect()
  }, [])
  useLayoutEffect(() => {
    if (role === 'table' && box.current) box.current.scrollTop = rememberedPlace(label)
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
