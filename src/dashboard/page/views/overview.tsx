/** The fleet at a glance: its numbers, and each build with its servers and its problems. */
import { keyOf } from '../../../rules/model/resources.js'
import type { GameServerBuild } from '../../../rules/model/wire.js'
import { useActivity } from '../charts/use-activity.js'
import { model, now, stats } from '../data/live.js'
import { countsOf, crashesInHour, type Model, perMinute, playersOf } from '../data/model.js'
import { linkTo } from '../data/router.js'
import { plural } from '../data/words.js'
import { Conditions } from '../parts/conditions.js'
import { StateBar } from '../parts/state-bar.js'
import { FirstRun } from './first-run/first-run.js'
import { ActivityCharts } from './fleet/activity-charts.js'
import { HostHealth } from './fleet/host-health.js'

export function Overview() {
  const { builds, crashes } = model.value
  const list = [...builds.values()]
  const activity = useActivity(crashes[0]?.seq ?? 0).value
  return (
    <>
      <h1 class="hidden">Overview</h1>
      <Numbers of={model.value} />
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

function Numbers({ of }: { readonly of: Model }) {
  const keys = [...of.builds.keys()]
  const counts = keys.map((key) => countsOf(of, key))
  const active = counts.reduce((sum, one) => sum + one.Active, 0)
  const standingBy = counts.reduce((sum, one) => sum + one.StandingBy, 0)
  const waiting = stats.value?.builds.reduce((sum, one) => sum + one.waiting, 0)
  const crashes = crashesInHour(of.minutes, now.value)
  const tiles = [
    ['active servers', active, ''],
    ['standing by', standingBy, ''],
    ['players', keys.reduce((sum, key) => sum + playersOf(of, key), 0), ''],
    ['allocations a minute', perMinute(of.minutes, now.value), ''],
    ['callers waiting', waiting ?? 0, (waiting ?? 0) > 0 ? 'warn' : ''],
    ['crashes in an hour', crashes, crashes > 0 ? 'bad' : ''],
  ] as const
  return (
    <dl class="tiles">
      {tiles.map(([name, value, kind]) => (
        <div key={name} class={kind}>
          <dt>{name}</dt>
          <dd>{value.toLocaleString('en')}</dd>
        </div>
      ))}
    </dl>
  )
}

function BuildCard({ build: { metadata, spec, status } }: { readonly build: GameServerBuild }) {
  const key = keyOf(metadata)
  const own = stats.value?.builds.find((one) => keyOf(one.build) === key)
  const { rollout, conditions = [], crashesCount, health: state } = status
  return (
    <article class={`panel build ${state === 'Unhealthy' ? 'unhealthy' : ''}`}>
      <header>
        <h2>
          <a href={linkTo.build(metadata)}>{metadata.name}</a>
        </h2>
        {metadata.namespace === 'default' ? null : <span class="quiet">{metadata.namespace}</span>}
        <code class="quiet build-id">{spec.buildID}</code>
        {state === 'Unhealthy' ? <span class="tag bad">unhealthy</span> : null}
      </header>
      <StateBar counts={countsOf(model.value, key)} max={spec.max} />
      <p class="facts">
        wants <b>{spec.standingBy.toLocaleString('en')}</b> standing by ·{' '}
        {plural(playersOf(model.value, key), 'player')}
        {own && own.waiting > 0 ? <b class="warn"> · {plural(own.waiting, 'caller')} waiting</b> : null}
        {crashesCount > 0 ? ` · ${plural(crashesCount, 'crash', 'crashes')} so far` : null}
        {rollout ? ` · rolling update: ${rollout.updated} of ${rollout.updated + rollout.outdated} servers` : null}
      </p>
      <Conditions of={conditions} />
    </article>
  )
}
