/** The last hour of the fleet as small charts. */
import type { ActivityMinute, FleetActivity } from '../../../../contracts/observer.js'
import type { Series } from '../../charts/series.js'
import { TimeChart, type TimeChartProps } from '../../charts/time-chart.js'
import { now } from '../../data/live.js'
import { linkTo } from '../../data/router.js'
import { causeIn, milliseconds, plural } from '../../data/words.js'
import { Ago, Section } from '../../parts/parts.js'

interface Chart {
  readonly title: string
  readonly kind: TimeChartProps['kind']
  readonly series: readonly Series[]
  readonly summary: (minutes: readonly ActivityMinute[]) => string
}

const charts: readonly Chart[] = [
  {
    title: 'Allocations a minute',
    kind: 'bars',
    series: [{ name: 'allocations', colour: '--active', pick: ({ allocations }) => allocations }],
    summary: (minutes) =>
      plural(
        sum(minutes, ({ allocations }) => allocations),
        'allocation',
      ),
  },
  {
    title: 'Latency, ms',
    kind: 'lines',
    series: [
      { name: 'half of the allocations', colour: '--active', pick: ({ p50Ms }) => p50Ms },
      { name: '99 % of the allocations', colour: '--ending', isDashed: true, pick: ({ p99Ms }) => p99Ms },
    ],
    summary: latencyOf,
  },
  {
    title: 'Callers waiting',
    kind: 'bars',
    series: [{ name: 'callers waiting', colour: '--initializing', pick: ({ waiting }) => waiting }],
    summary: (minutes) => `at most ${highest(minutes, ({ waiting }) => waiting)}`,
  },
  {
    title: 'Players',
    kind: 'bars',
    series: [{ name: 'players', colour: '--standing-by', pick: ({ players }) => players }],
    summary: (minutes) => `at most ${highest(minutes, ({ players }) => players)}`,
  },
  {
    title: 'Crashes a minute',
    kind: 'bars',
    series: [{ name: 'crashes', colour: '--bad', pick: ({ crashes }) => crashes }],
    summary: (minutes) =>
      plural(
        sum(minutes, ({ crashes }) => crashes),
        'crash',
        'crashes',
      ),
  },
]

export function ActivityCharts({ of }: { readonly of: FleetActivity | undefined }) {
  const minutes = of?.minutes ?? none
  const shortMs = of === undefined ? 0 : of.since - (now.value - 59 * 60_000)
  return (
    <section aria-labelledby="last-hour">
      <header class="part-title">
        <h2 id="last-hour">Last hour</h2>
        {of && shortMs > 0 ? (
          <span class="quiet">
            recorded since this host began to lead, <Ago at={of.since} />
          </span>
        ) : null}
      </header>
      <div class="charts">
        {charts.map(({ title, kind, series, summary }) => (
          <Section key={title} title={title} aside={<span class="quiet">{of ? summary(minutes) : '…'}</span>}>
            <TimeChart
              minutes={minutes}
              now={now.value}
              kind={kind}
              series={series}
              label={`${title} in the last hour: ${summary(minutes)}`}
            />
          </Section>
        ))}
        <LatestCrashes of={of?.crashes} />
      </div>
    </section>
  )
}

function LatestCrashes({ of }: { readonly of: FleetActivity['crashes'] | undefined }) {
  return (
    <Section title="Latest crashes">
      {of === undefined ? <p class="quiet">Reading…</p> : null}
      {of?.length === 0 ? <p class="quiet">None in the last hour.</p> : null}
      <ul class="plain">
        {of?.slice(0, 3).map((crash) => (
          <li key={`${crash.server.namespace}/${crash.server.name}`}>
            <a href={linkTo.server(crash.server)}>{crash.server.name}</a> {causeIn(crash)} · <Ago at={crash.at} />
          </li>
        ))}
      </ul>
    </Section>
  )
}

const none: readonly ActivityMinute[] = []

function sum(minutes: readonly ActivityMinute[], pick: (minute: ActivityMinute) => number): number {
  return minutes.reduce((total, minute) => total + pick(minute), 0)
}

function highest(minutes: readonly ActivityMinute[], pick: (minute: ActivityMinute) => number): string {
  return Math.max(0, ...minutes.map(pick)).toLocaleString('en')
}

/** Of the latest minute in which there were any. */
function latencyOf(minutes: readonly ActivityMinute[]): string {
  const { p50Ms, p99Ms } = minutes.findLast(({ allocations }) => allocations > 0) ?? {}
  if (p50Ms === undefined || p99Ms === undefined) return 'no allocations'
  return `p50 ${milliseconds(p50Ms)}, p99 ${milliseconds(p99Ms)}`
}
