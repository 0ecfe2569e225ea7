/**
 * Servers as squares in the colours of their states, drawn on a canvas: with 10,000 of them, elements would be too slow. The table below it
 * is the same for the keyboard and for screen readers.
 */
import { useSignal } from '@preact/signals'
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks'
import { keyOf, type Ref, type ServerState, serverStates } from '../../../../rules/model/resources.js'
import { connectedTo, type ServerRow, sessionsIn } from '../../data/model.js'
import { itemAt, layOut, type MapGroup, type MapLayout, nameHeight } from '../../data/map-layout.js'
import { go, linkTo } from '../../data/router.js'
import { plural, stateWords } from '../../data/words.js'
import { Ago } from '../../parts/parts.js'

export type Grouping = 'build' | 'node'

const colours: Readonly<Record<ServerState, string>> = {
  Active: '--active',
  StandingBy: '--standing-by',
  Initializing: '--initializing',
  Pending: '--pending',
  Terminating: '--ending',
}

interface Pointed {
  readonly server: Ref
  /** In CSS pixels, in the map. */
  readonly x: number
  readonly y: number
}

export function ServerMap({ rows, by }: { readonly rows: readonly ServerRow[]; readonly by: Grouping }) {
  const box = useRef<HTMLDivElement>(null)
  const canvas = useRef<HTMLCanvasElement>(null)
  const width = useSignal(0)
  const redraws = useSignal(0)
  const pointed = useSignal<Pointed | undefined>(undefined)
  useLayoutEffect(() => {
    const element = box.current
    if (!element) return undefined
    const measure = () => (width.value = element.clientWidth)
    measure()
    const observer = new ResizeObserver(measure)
    observer.observe(element)
    const scheme = matchMedia('(prefers-color-scheme: dark)')
    const redraw = () => void redraws.value++
    scheme.addEventListener('change', redraw)
    return () => {
      observer.disconnect()
      scheme.removeEventListener('change', redraw)
    }
  }, [])
  const layout = layOut(groupsOf(rows, by), width.value)
  const drawn = redraws.value
  useEffect(() => {
    if (canvas.current && width.value > 0) draw(canvas.current, layout, width.value)
  }, [rows, by, width.value, drawn])

  const { x = 0, y = 0, server } = pointed.value ?? {}
  const key = server && keyOf(server)
  const shown = key === undefined ? undefined : rows.find((row) => keyOf(row) === key)
  const at = ({ offsetX, offsetY }: MouseEvent) => itemAt(layout, offsetX, offsetY)
  return (
    <div class="server-map" ref={box} style={{ height: `${layout.height}px` }}>
      <canvas
        ref={canvas}
        role="img"
        aria-label={summaryOf(rows, by, layout.groups.length)}
        class={shown ? 'pointed' : ''}
        onMouseMove={(event) => {
          const row = at(event)
          pointed.value = row && { server: row, x: event.offsetX, y: event.offsetY }
        }}
        onMouseLeave={() => (pointed.value = undefined)}
        onClick={(event) => {
          const row = at(event)
          if (row) go(linkTo.server(row))
        }}
      />
      {layout.groups.map(({ name, items, left, top, columns }) => (
        <p
          key={name}
          class="group"
          title={name}
          style={{
            left: `${left}px`,
            top: `${top - nameHeight}px`,
            width: `${Math.max(96, columns * layout.pitch)}px`,
          }}
        >
          <GroupName name={name} by={by} first={items[0]} />{' '}
          <span class="quiet">{items.length.toLocaleString('en')}</span>
        </p>
      ))}
      {shown ? <Hint row={shown} x={x} y={y} width={width.value} /> : null}
    </div>
  )
}

function GroupName({ name, by, first }: { name: string; by: Grouping; first: ServerRow | undefined }) {
  if (by === 'node' || !first) return name
  const [namespace = '', build = ''] = first.build.split('/')
  return <a href={linkTo.build({ namespace, name: build })}>{build}</a>
}

interface HintProps {
  readonly row: ServerRow
  readonly x: number
  readonly y: number
  readonly width: number
}

const hintWidth = 280

function Hint({ row, x, y, width }: HintProps) {
  const sessions = sessionsIn(row)
  const players = connectedTo(row).length
  const left = Math.max(0, Math.min(x + 14, width - hintWidth))
  return (
    <div class="hint" style={{ left: `${left}px`, top: `${y + 16}px`, width: `${hintWidth}px` }}>
      <b>{row.name}</b>
      <p>
        <span class={`dot state-${row.state}`} /> {stateWords[row.state]} · <Ago at={row.since} />
        {row.health === 'Unhealthy' ? ', unhealthy' : ''}
      </p>
      {sessions.length === 0 ? null : (
        <p>
          {sessions.length === 1 ? `session ${sessions[0]?.id ?? ''}` : plural(sessions.length, 'session')},{' '}
          {plural(players, 'player')}
        </p>
      )}
      <p class="quiet">{[row.place?.addresses[0], row.place?.node, row.message].filter((text) => text).join(' · ')}</p>
    </div>
  )
}

/** `node-9` before `node-10`. */
const naturally = new Intl.Collator('en', { numeric: true })

function groupsOf(rows: readonly ServerRow[], by: Grouping): readonly MapGroup<ServerRow>[] {
  const groups = new Map<string, ServerRow[]>()
  for (const row of rows) {
    const name = by === 'build' ? row.build : row.place?.node || 'node not known'
    const group = groups.get(name)
    if (group) group.push(row)
    else groups.set(name, [row])
  }
  const all = [...groups].map(([name, items]) => ({ name, items }))
  return all.toSorted((a, b) => naturally.compare(a.name, b.name))
}

function summaryOf(rows: readonly ServerRow[], by: Grouping, groups: number): string {
  const counts = new Map<ServerState, number>()
  for (const { state } of rows) counts.set(state, (counts.get(state) ?? 0) + 1)
  const states = serverStates.flatMap((state) => {
    const count = counts.get(state) ?? 0
    return count === 0 ? [] : [`${count.toLocaleString('en')} ${stateWords[state]}`]
  })
  return `Map of ${plural(rows.length, 'server')} of ${plural(groups, by)}: ${states.join(', ')}. The table below lists them.`
}

function draw(canvas: HTMLCanvasElement, layout: MapLayout<ServerRow>, width: number): void {
  const scale = devicePixelRatio
  const [wide, high] = [Math.round(width * scale), Math.round(layout.height * scale)]
  // To set its size clears it, and allocates anew.
  if (canvas.width !== wide || canvas.height !== high) {
    canvas.width = wide
    canvas.height = high
    canvas.style.width = `${width}px`
    canvas.style.height = `${layout.height}px`
  }
  const context = canvas.getContext('2d')
  if (!context) return
  context.setTransform(scale, 0, 0, scale, 0, 0)
  context.clearRect(0, 0, width, layout.height)
  const style = getComputedStyle(document.documentElement)
  const { pitch } = layout
  const size = pitch > 8 ? pitch - 2 : pitch - 1
  for (const state of serverStates) {
    context.fillStyle = style.getPropertyValue(colours[state]).trim()
    eachSquare(layout, (row, x, y) => {
      if (row.state === state) context.fillRect(x, y, size, size)
    })
  }
  // Not by colour alone: an unhealthy one has a hole.
  context.fillStyle = style.getPropertyValue('--bad').trim()
  eachSquare(layout, (row, x, y) => {
    if (row.health !== 'Unhealthy') return
    context.fillRect(x, y, size, size)
    context.clearRect(x + size / 3, y + size / 3, size / 3, size / 3)
  })
}

function eachSquare(
  { groups, pitch }: MapLayout<ServerRow>,
  visit: (row: ServerRow, x: number, y: number) => void,
): void {
  for (const { items, left, top, columns } of groups) {
    for (let n = 0; n < items.length; n++) {
      const row = items[n]
      if (row) visit(row, left + (n % columns) * pitch, top + Math.floor(n / columns) * pitch)
    }
  }
}
