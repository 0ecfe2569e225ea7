/** The last hour of the fleet as small charts. */
import type { ActivityMinute, FleetActivity } from '../../../../contracts/observer.js'
import { MarksLegend } from '../../charts/marks-legend.js'
import type { Series } from '../../charts/series.js'
import { TimeChart, type TimeChartProps } from '../../charts/time-chart.js'
import { keyOf } from '../../../../rules/model/resources.js'
import { useMarks } from '../../charts/use-marks.js'
import { crashGroups, unknownBefore } from '../../data/crashes.js'
import { model, now } from '../../data/live.js'
import { linkTo } from '../../data/router.js'
import { milliseconds, plural } from '../../data/words.js'
import { Ago, Clock, Section } from '../../parts/parts.js'

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
  const marks = useMarks(of)
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
        <MarksLegend of={marks} />
      </header>
      <div class="charts">
        {charts.map(({ title, kind, series, summary }) => (
          <Section key={title} title={title} aside={<span class="quiet">{of ? summary(minutes) : '…'}</span>}>
            <TimeChart
              minutes={minutes}
              now={now.value}
              kind={kind}
              series={series}
              marks={marks}
              label={`${title} in the last hour: ${summary(minutes)}`}
            />
          </Section>
        ))}
        <LatestCrashes of={of} />
      </div>
    </section>
  )
}

/** Those of the last hour, and the latest of each build, which the store keeps. */
function LatestCrashes({ of }: { readonly of: FleetActivity | undefined }) {
  const cut = unknownBefore(of, model.value.builds.values(), now.value)
  return (
    <Section title="Latest crashes">
      {of === undefined ? <p class="quiet">Reading…</p> : null}
      {of?.crashes.length === 0 && cut === undefined ? <p class="quiet">None in the last hour.</p> : null}
      <ul class="plain">
        {crashGroups(of?.crashes ?? [])
          .slice(0, 3)
          .map(({ title, detail, crashes: [latest, ...others] }) => (
            <li key={`${title} ${detail} ${keyOf(latest.build)}`}>
              {others.length + 1} × {title} of <a href={linkTo.build(latest.build)}>{latest.build.name}</a>, last{' '}
              <Ago at={latest.at} />
              {detail === undefined ? null : (
                <>
                  : <code class="words">{detail}</code>
                </>
              )}
            </li>
          ))}
      </ul>
      {cut === undefined ? null : (
        <p class="quiet">
          {of?.crashes.length === 0 ? 'None since then. ' : ''}Unknown before <Clock at={cut} />, except for the latest
          ten of each build.
        </p>
      )}
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
