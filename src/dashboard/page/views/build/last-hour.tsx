/** A build's servers by state, and the demand for it, minute by minute. */
import type { ActivityMinute, FleetActivity } from '../../../../contracts/observer.js'
import type { Ref } from '../../../../rules/model/resources.js'
import { MarksLegend } from '../../charts/marks-legend.js'
import type { Series } from '../../charts/series.js'
import { TimeChart } from '../../charts/time-chart.js'
import { useMarks } from '../../charts/use-marks.js'
import { now } from '../../data/live.js'
import { plural } from '../../data/words.js'
import { Ago, Clock, Section } from '../../parts/parts.js'

/** From the lowest band up. */
const states = [
  { name: 'active', state: 'Active', colour: '--active', pick: ({ servers }: ActivityMinute) => servers.active },
  {
    name: 'standing by',
    state: 'StandingBy',
    colour: '--standing-by',
    pick: ({ servers }: ActivityMinute) => servers.standingBy,
  },
  {
    name: 'initializing',
    state: 'Initializing',
    colour: '--initializing',
    pick: ({ servers }: ActivityMinute) => servers.initializing,
  },
  { name: 'pending', state: 'Pending', colour: '--pending', pick: ({ servers }: ActivityMinute) => servers.pending },
  {
    name: 'ending',
    state: 'Terminating',
    colour: '--ending',
    pick: ({ servers }: ActivityMinute) => servers.terminating,
  },
] as const satisfies readonly (Series & { readonly state: string })[]

const [active, standingBy] = states

const demand = [
  active,
  { ...standingBy, name: 'ready' },
  {
    name: 'wanted ready',
    state: 'Wanted',
    colour: '--initializing',
    isDashed: true,
    pick: ({ wanted }: ActivityMinute) => wanted,
  },
  { name: 'refused calls', state: 'Refused', colour: '--bad', pick: ({ refused }: ActivityMinute) => refused },
] as const satisfies readonly (Series & { readonly state: string })[]

interface BuildLastHourProps {
  readonly of: FleetActivity | undefined
  readonly build: Ref
}

const none: readonly ActivityMinute[] = []
const height = 170

export function BuildLastHour({ of, build }: BuildLastHourProps) {
  const marks = useMarks(of, build)
  const minutes = of?.minutes ?? none
  const begin = minutes[0]?.at ?? 0
  const aside = (
    <span class="quiet">
      {of === undefined ? '…' : summaryOf(minutes)}
      {of ? <Totals of={of} /> : null}
      {of && begin > now.value - 59 * 60_000 ? (
        <>
          {' '}
          · recorded since <Ago at={Math.max(begin, of.since)} />
        </>
      ) : null}
    </span>
  )
  return (
    <>
      <Section title="Servers in the last hour" aside={aside}>
        <TimeChart
          minutes={minutes}
          now={now.value}
          kind="stack"
          series={states}
          marks={marks}
          height={height}
          label={`Servers by state in the last hour: ${summaryOf(minutes)}`}
        />
        <Legend of={states} />
        <MarksLegend of={marks} />
      </Section>
      <Section
        title="Demand in the last hour"
        aside={<span class="quiet">{of === undefined ? '…' : demandOf(minutes)}</span>}
      >
        <TimeChart
          minutes={minutes}
          now={now.value}
          kind="lines"
          series={demand}
          marks={marks}
          label={`Servers wanted, ready and active, and calls refused, in the last hour: ${demandOf(minutes)}`}
        />
        <Legend of={demand} />
      </Section>
    </>
  )
}

function Legend({ of }: { readonly of: readonly { readonly name: string; readonly state: string }[] }) {
  return (
    <ul class="legend" aria-hidden="true">
      {of.map(({ name, state }) => (
        <li key={state}>
          <span class={`dot state-${state}`} /> {name}
        </li>
      ))}
    </ul>
  )
}

function demandOf(minutes: readonly ActivityMinute[]): string {
  const refused = minutes.reduce((sum, minute) => sum + minute.refused, 0)
  const wanted = minutes.at(-1)?.wanted ?? 0
  return `${wanted.toLocaleString('en')} wanted now, ${plural(refused, 'call')} refused`
}

function summaryOf(minutes: readonly ActivityMinute[]): string {
  const allocations = minutes.reduce((sum, minute) => sum + minute.allocations, 0)
  const most = Math.max(0, ...minutes.map(({ servers }) => servers.active))
  return `${plural(allocations, 'allocation')}, at most ${most.toLocaleString('en')} active`
}

/** Since the host leads. */
function Totals({ of: { since, totals } }: { readonly of: FleetActivity }) {
  const hours =
    totals.serverHours < 10 ? totals.serverHours.toFixed(1) : Math.round(totals.serverHours).toLocaleString('en')
  return (
    <>
      {' '}
      · {plural(totals.sessions, 'session')} and {hours} server-hours since <Clock at={since} />
    </>
  )
}
