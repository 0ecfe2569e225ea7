/** The last hour as bars, lines or stacked bars, a place for each minute. */
import { useEffect, useRef } from 'preact/hooks'
import uPlot from 'uplot'
import type { ActivityMinute } from '../../../contracts/observer.js'
import { type Series, stacked, timesUntil, valuesOf } from './series.js'

export interface TimeChartProps {
  readonly minutes: readonly ActivityMinute[]
  /** Wall time in ms at which the chart ends. */
  readonly now: number
  /** For screen readers: what it shows, in words and numbers. */
  readonly label: string
  readonly kind: 'bars' | 'lines' | 'stack'
  readonly series: readonly Series[]
  /** In CSS pixels. */
  readonly height?: number
}

const minuteMs = 60_000
const timeFormat = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' })

export function TimeChart({ minutes, now, label, kind, series, height = 110 }: TimeChartProps) {
  const box = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot>(undefined)
  const data = dataOf(minutes, now, kind, series)
  useEffect(() => {
    const element = box.current
    if (!element) return undefined
    const made = new uPlot(optionsOf(kind, series, element.clientWidth, height), data, element)
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
    }
  }, [])
  useEffect(() => plot.current?.setData(data), [minutes, Math.floor(now / minuteMs)])
  return <div class="chart" style={{ height: `${height}px` }} ref={box} role="img" aria-label={label} />
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
  return [timesUntil(now).map((at) => at / 1_000), ...drawn.map((one) => [...one])]
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
        size: 28,
        space: 70,
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
