/** The fleet at a glance: its numbers, and each build with its servers and its problems. */
import type { FleetActivity } from '../../../contracts/observer.js'
import { keyOf } from '../../../rules/model/resources.js'
import type { GameServerBuild } from '../../../rules/model/wire.js'
import { useActivity } from '../charts/use-activity.js'
import { model, now, problems, stats } from '../data/live.js'
import { crashesKnown, unknownBefore } from '../data/crashes.js'
import { countsOf, type Model, perMinute, playersOf } from '../data/model.js'
import { problemsOfBuild, severityOf, worstFirst } from '../data/problems.js'
import { readinessOf } from '../data/readiness.js'
import { linkTo } from '../data/router.js'
import { kindWords, plural } from '../data/words.js'
import { Clock } from '../parts/parts.js'
import { Readiness } from '../parts/readiness.js'
import { StateBar } from '../parts/state-bar.js'
import { FirstRun } from './first-run/first-run.js'
import { ActivityCharts } from './fleet/activity-charts.js'
import { HostHealth } from './fleet/host-health.js'

export function Overview() {
  const { builds, crashes } = model.value
  const list = worstFirst(builds.values(), problems.value.list ?? [])
  const activity = useActivity(crashes[0]?.seq ?? 0).value
  return (
    <>
      <h1 class="hidden">Overview</h1>
      <Numbers of={model.value} activity={activity} />
      <HostHealth since={activity?.since} />
      <FirstRun />
      {list.length === 0 ? null : (
        <div class="builds">
          {list.map((build) => (
            <BuildCard key={keyOf(build.metadata)} build={build} />
          ))}
        </div>
      )}
      {list.length > 0 ? <ActivityCharts of={activity} /> : null}
    </>
  )
}

function Numbers({ of, activity }: { readonly of: Model; readonly activity: FleetActivity | undefined }) {
  const keys = [...of.builds.keys()]
  const counts = keys.map((key) => countsOf(of, key))
  const active = counts.reduce((sum, one) => sum + one.Active, 0)
  const standingBy = counts.reduce((sum, one) => sum + one.StandingBy, 0)
  const waiting = stats.value?.builds.reduce((sum, one) => sum + one.waiting, 0)
  const recorded = activity?.minutes ?? []
  // The page has only the newest events, and the host's records are a few seconds old.
  const count = crashesKnown(activity, of.minutes, now.value)
  const allocations = Math.max(perMinute(of.minutes, now.value), perMinute(recorded, now.value))
  const cut = unknownBefore(activity, of.builds.values(), now.value)
  const crashes = `${cut === undefined || count === 0 ? '' : '≥ '}${count.toLocaleString('en')}`
  const tiles = [
    ['active servers', active, ''],
    ['standing by', standingBy, ''],
    ['players', keys.reduce((sum, key) => sum + playersOf(of, key), 0), ''],
    ['allocations a minute', allocations, ''],
    ['callers waiting', waiting ?? '–', (waiting ?? 0) > 0 ? 'warn' : ''],
    ['crashes in an hour', crashes, count > 0 ? 'bad' : ''],
  ] as const
  return (
    <dl class="tiles">
      {tiles.map(([name, value, kind]) => (
        <div key={name} class={kind}>
          <dt>
            {name}
            {name === 'crashes in an hour' && cut !== undefined ? (
              <>
                , unknown before <Clock at={cut} />
              </>
            ) : null}
          </dt>
          <dd>{value.toLocaleString('en')}</dd>
        </div>
      ))}
    </dl>
  )
}

function BuildCard({ build }: { readonly build: GameServerBuild }) {
  const { metadata, spec, status } = build
  const key = keyOf(metadata)
  const own = stats.value?.builds.find((one) => keyOf(one.build) === key)
  const counts = countsOf(model.value, key)
  const { rollout, crashesCount } = status
  const known = problems.value.list ?? []
  return (
    <article class={`panel build ${severityOf(known, metadata) ?? ''}`}>
      <header>
        <h2>
          <a href={linkTo.build(metadata)}>{metadata.name}</a>
        </h2>
        {metadata.namespace === 'default' ? null : <span class="quiet">{metadata.namespace}</span>}
        <code class="quiet build-id">{spec.buildID}</code>
        {problemsOfBuild(known, metadata).map(({ kind, severity }) => (
          <span key={kind} class={`tag ${severity}`}>
            {kindWords[kind]}
          </span>
        ))}
        <Readiness of={readinessOf(build, counts)} />
      </header>
      <StateBar counts={counts} max={spec.max} />
      <p class="facts">
        {plural(playersOf(model.value, key), 'player')}
        {own && own.waiting > 0 ? <b class="warn"> · {plural(own.waiting, 'caller')} waiting</b> : null}
        {crashesCount > 0 ? ` · ${plural(crashesCount, 'crash', 'crashes')} so far` : null}
        {rollout ? ` · rolling update: ${rollout.updated} of ${rollout.updated + rollout.outdated} servers` : null}
      </p>
    </article>
  )
}
