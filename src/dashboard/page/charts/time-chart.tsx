/** The last hour as bars, lines or stacked bars, a place for each minute, with marks. All charts have one crosshair. */
import { signal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import uPlot from 'uplot'
import type { ActivityMinute } from '../../../contracts/observer.js'
import { go, linkTo } from '../data/router.js'
import { type Mark, markLooks } from './marks.js'
import { type Series, stacked, timesUntil, valuesOf } from './series.js'

export interface TimeChartProps {
  readonly minutes: readonly ActivityMinute[]
  /** Wall time in ms at which the chart ends. */
  readonly now: number
  /** For screen readers: what it shows, in words and numbers. */
  readonly label: string
  readonly kind: 'bars' | 'lines' | 'stack'
  readonly series: readonly Series[]
  readonly marks?: readonly Mark[]
  /** In CSS pixels. */
  readonly height?: number
}

const minuteMs = 60_000
const axisHeight = 28
const timeFormat = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' })

/** The minute at which the reader points, in all charts: when it began, wall time in ms. */
const pointed = signal<number | undefined>(undefined)

export function TimeChart({ minutes, now, label, kind, series, marks = none, height = 110 }: TimeChartProps) {
  const box = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot>(undefined)
  const drawnMarks = useRef(marks)
  drawnMarks.current = marks
  const times = timesUntil(now, minutes[0]?.at)
  const data = dataOf(minutes, now, kind, series)
  useEffect(() => {
    const element = box.current
    if (!element) return undefined
    const options = optionsOf(kind, series, element.clientWidth, height)
    const draw = [(drawn: uPlot) => drawMarks(drawn, drawnMarks.current)]
    const made = new uPlot({ ...options, hooks: { draw } }, data, element)
    plot.current = made
    const observer = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height }))
    observer.observe(element)
    const scheme = matchMedia('(prefers-color-scheme: dark)')
    const redraw = () => made.redraw(false)
    scheme.addEventListener('change', redraw)
    return () => {
      observer.disconnect()
      scheme.removeEventListener('change', redraw)
      made.destroy()
      pointed.value = undefined
    }
  }, [])
  useEffect(() => plot.current?.setData(data), [minutes, marks, Math.floor(now / minuteMs)])

  const chosen = pointed.value === undefined ? -1 : times.indexOf(pointed.value)
  const at = times[chosen]
  const readout = at === undefined ? '' : readoutOf(at, minutes, series, marks)
  const point = (event: MouseEvent) => {
    const over = plot.current?.over.getBoundingClientRect()
    const minute = over && plot.current?.posToIdx(event.clientX - over.left)
    pointed.value = minute === undefined ? undefined : times[minute]
  }
  const onKey = (event: KeyboardEvent) => {
    const from = chosen < 0 ? times.length : chosen
    const to = { ArrowLeft: from - 1, ArrowRight: from + 1, Home: 0, End: times.length - 1 }[event.key]
    if (to !== undefined) pointed.value = times[Math.max(0, Math.min(to, times.length - 1))]
    else if (event.key === 'Escape') pointed.value = undefined
    else if (event.key === 'Enter' && at !== undefined) go(linkTo.eventsOf(at))
    else return
    event.preventDefault()
  }
  return (
    <div
      class="pointable"
      role="slider"
      tabIndex={0}
      aria-label={`Minute of: ${label}`}
      aria-valuemin={0}
      aria-valuemax={times.length - 1}
      aria-valuenow={chosen < 0 ? times.length - 1 : chosen}
      aria-valuetext={readout || 'no minute chosen; the arrow keys choose one, Enter shows its events'}
      onKeyDown={onKey}
      onBlur={() => (pointed.value = undefined)}
      onMouseMove={point}
      onMouseLeave={() => (pointed.value = undefined)}
      onClick={() => {
        if (at !== undefined) go(linkTo.eventsOf(at))
      }}
    >
      <div class="chart" style={{ height: `${height}px` }} ref={box} role="img" aria-label={label} />
      {at === undefined ? null : (
        <span
          class="crosshair"
          style={{ left: `${crosshairAt(plot.current, at)}px`, height: `${height - axisHeight}px` }}
        />
      )}
      {readout === '' ? null : <p class="readout">{readout}</p>}
    </div>
  )
}

const none: readonly Mark[] = []

/** In CSS pixels from the left of the chart. */
function crosshairAt(plot: uPlot | undefined, at: number): number {
  return plot === undefined ? 0 : plot.over.offsetLeft + plot.valToPos(at / 1_000, 'x')
}

/** `12:03 · allocations: 12 · arena was deployed` */
function readoutOf(
  at: number,
  minutes: readonly ActivityMinute[],
  series: readonly Series[],
  marks: readonly Mark[],
): string {
  const minute = minutes.find((one) => one.at === at)
  const values = series.flatMap(({ name, pick }) => {
    const value = minute && pick(minute)
    return value === undefined ? [] : [`${name}: ${value.toLocaleString('en', { maximumFractionDigits: 1 })}`]
  })
  const known = minute ? values.join(', ') || 'nothing' : 'not recorded'
  const here = marks.filter((mark) => mark.at >= at && mark.at < at + minuteMs).map(({ text }) => text)
  return [timeFormat.format(at), known, ...new Set(here)].join(' · ')
}

/** A line through the chart for each, with its sign at the top. */
function drawMarks(plot: uPlot, marks: readonly Mark[]): void {
  const { ctx, bbox } = plot
  const { min = 0, max = 0 } = plot.scales['x'] ?? {}
  const style = getComputedStyle(document.documentElement)
  ctx.save()
  ctx.textAlign = 'center'
  ctx.textBaseline = 'top'
  ctx.font = `${10 * devicePixelRatio}px system-ui, sans-serif`
  for (const { kind, at } of marks) {
    // A bar stands in the middle of its minute.
    const second = (at - minuteMs / 2) / 1_000
    if (second < min || second > max) continue
    const x = Math.round(plot.valToPos(second, 'x', true))
    const { colour, sign } = markLooks[kind]
    ctx.strokeStyle = ctx.fillStyle = style.getPropertyValue(colour).trim()
    ctx.setLineDash([3 * devicePixelRatio, 3 * devicePixelRatio])
    ctx.beginPath()
    ctx.moveTo(x, bbox.top + 11 * devicePixelRatio)
    ctx.lineTo(x, bbox.top + bbox.height)
    ctx.stroke()
    ctx.fillText(sign, x, bbox.top)
  }
  ctx.restore()
}

/** Stacked bars are drawn from the highest down, each over the one before. */
function dataOf(
  minutes: readonly ActivityMinute[],
  now: number,
  kind: TimeChartProps['kind'],
  series: readonly Series[],
): uPlot.AlignedData {
  const values = valuesOf(minutes, now, series)
  const drawn = kind === 'stack' ? stacked(values).toReversed() : values
  return [timesUntil(now, minutes[0]?.at).map((at) => at / 1_000), ...drawn.map((one) => [...one])]
}

function optionsOf(
  kind: TimeChartProps['kind'],
  series: readonly Series[],
  width: number,
  height: number,
): uPlot.Options {
  const colour = (variable: string) => () =>
    getComputedStyle(document.documentElement).getPropertyValue(variable).trim()
  const grid = { stroke: colour('--line'), width: 1 }
  const axis = { stroke: colour('--quiet'), grid, ticks: grid, font: '12px system-ui, sans-serif' }
  const { bars } = uPlot.paths
  const size = kind === 'stack' ? ([1, Infinity] as [number, number]) : ([0.7, 12] as [number, number])
  const drawn = kind === 'stack' ? series.toReversed() : series
  return {
    width,
    height,
    legend: { show: false },
    cursor: { show: false },
    scales: {
      x: { range: (_, first, last) => [first - 30, last + 30] },
      y: { range: (_, __, max) => [0, Math.max(4, Math.ceil((max ?? 0) * 1.1))] },
    },
    axes: [
      {
        ...axis,
        size: axisHeight,
        space: 70,
        // In seconds: no label comes twice.
        incrs: [60, 120, 300, 600, 1_200],
        grid: { show: false },
        values: (_, at) => at.map((s) => timeFormat.format(s * 1_000)),
      },
      {
        ...axis,
        size: 46,
        space: 28,
        incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000],
      },
    ],
    series: [
      {},
      ...drawn.map((one): uPlot.Series =>
        kind === 'lines'
          ? {
              label: one.name,
              width: 2,
              stroke: colour(one.colour),
              ...(one.isDashed && { dash: [6, 4] }),
              // A minute between two without a value has no line.
              points: { show: true, size: 5, fill: colour(one.colour) },
            }
          : {
              label: one.name,
              width: 0,
              fill: colour(one.colour),
              ...(bars && { paths: bars({ size }) }),
              points: { show: false },
            },
      ),
    ],
  }
}
