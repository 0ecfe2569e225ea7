/** One build: its servers, its problems, what it runs. */
import { useEffect } from 'preact/hooks'
import { standingByOf } from '../../../rules/model/build-status.js'
import { keyOf, type Ref, serverStates } from '../../../rules/model/resources.js'
import type { GameServerBuild } from '../../../rules/model/wire.js'
import { useActivity } from '../charts/use-activity.js'
import { rights } from '../data/access.js'
import { noServersText } from '../data/consequences.js'
import { connections, model, stats } from '../data/live.js'
import { type Counts, countsOf, playersOf, serversOf } from '../data/model.js'
import { readinessOf } from '../data/readiness.js'
import { changeQuery, linkTo, route } from '../data/router.js'
import { isFoundBy } from '../data/search.js'
import { plural, stateWords } from '../data/words.js'
import { Conditions } from '../parts/conditions.js'
import { Ago, CopyButton, Notice, Section } from '../parts/parts.js'
import { ServerTable } from '../parts/server-table.js'
import { StateBar } from '../parts/state-bar.js'
import { BuildActions, ScaleStep } from './build-actions.js'
import { Crashes } from './build/crashes.js'
import { BuildLastHour } from './build/last-hour.js'
import { Rollout } from './build/rollout.js'
import { Spec } from './spec-editor.js'

export function BuildView({ of }: { readonly of: Ref }) {
  const key = keyOf(of)
  useEffect(() => void rights.read(of), [key, connections.value])
  const build = model.value.builds.get(key)
  if (build === undefined) {
    return (
      <Notice title={`There is no build ${of.name}`} isView>
        <p>
          It may have been deleted. Its events may still be in <a href={linkTo.events}>the log</a>.
        </p>
      </Notice>
    )
  }
  return <KnownBuild build={build} />
}

function KnownBuild({ build }: { readonly build: GameServerBuild }) {
  const { metadata, spec, status } = build
  const key = keyOf(metadata)
  const counts = countsOf(model.value, key)
  const activity = useActivity(status.crashesCount, metadata).value
  return (
    <>
      <header class="page-title">
        <h1>{metadata.name}</h1>
        <span class="quiet">
          build in {metadata.namespace}
          {metadata.creationTimestamp === undefined ? null : (
            <>
              , created <Ago at={Date.parse(metadata.creationTimestamp)} />
            </>
          )}
        </span>
        {status.health === 'Unhealthy' ? <span class="tag down">stopped</span> : null}
        <BuildActions build={build} />
      </header>
      <section class="panel" aria-label="Servers by state">
        <StateBar counts={counts} max={spec.max} />
        <Facts build={build} counts={counts} />
        <Rollout build={build} />
        <Conditions of={status.conditions ?? []} isStopped={status.health === 'Unhealthy'} />
      </section>
      <BuildLastHour of={activity} build={metadata} />
      <Servers of={build} />
      <div class="columns">
        <Crashes of={activity} build={build} />
        <Spec build={build} />
      </div>
    </>
  )
}

interface FactsProps {
  readonly build: GameServerBuild
  /** Counted from the servers: the build itself is not read again for each of their changes. */
  readonly counts: Counts
}

function Facts({ build, counts }: FactsProps) {
  const { metadata, spec, status } = build
  const own = stats.value?.builds.find((one) => keyOf(one.build) === keyOf(metadata))
  const { isMaxReached } = readinessOf(build, counts)
  return (
    <dl class="facts-list">
      <div>
        <dt>buildID</dt>
        <dd>
          <code>{spec.buildID}</code> <CopyButton text={spec.buildID} name="the buildID" />
        </dd>
      </div>
      <div>
        <dt>standing by</dt>
        <dd>
          {counts.StandingBy.toLocaleString('en')} of {standingByOf(build).toLocaleString('en')}
          {isMaxReached ? <span class="max-reached"> max reached</span> : null}{' '}
          <ScaleStep build={build} field="standingBy" by={-1} /> <ScaleStep build={build} field="standingBy" by={1} />
        </dd>
      </div>
      {status.scaling ? (
        <div class="wide">
          <dt>kept ready by {status.scaling.decider}</dt>
          <dd>{status.scaling.message}</dd>
        </div>
      ) : null}
      <div>
        <dt>max</dt>
        <dd>
          {spec.max.toLocaleString('en')} <ScaleStep build={build} field="max" by={-1} />{' '}
          <ScaleStep build={build} field="max" by={1} />
        </dd>
      </div>
      <div>
        <dt>players</dt>
        <dd>{playersOf(model.value, keyOf(metadata)).toLocaleString('en')}</dd>
      </div>
      <div>
        <dt>callers waiting</dt>
        <dd>{own?.waiting.toLocaleString('en') ?? '–'}</dd>
      </div>
      <div>
        <dt>crashes</dt>
        <dd>
          {status.crashesCount.toLocaleString('en')}
          {spec.crashesToMarkUnhealthy === undefined
            ? ''
            : `, limit ${spec.crashesToMarkUnhealthy.toLocaleString('en')}`}
        </dd>
      </div>
    </dl>
  )
}

function Servers({ of }: { readonly of: GameServerBuild }) {
  const { text = '', state = '' } = route.value.query
  const all = [...serversOf(model.value, keyOf(of.metadata)).values()]
  const wanted = text.trim().toLowerCase()
  const shown = all.filter((row) => (state === '' || row.state === state) && isFoundBy(row, wanted))
  const filters = (
    <div class="filters">
      <input
        type="search"
        placeholder="Filter"
        aria-label="Filter servers by name, session or player"
        value={text}
        onInput={(event) => changeQuery({ text: event.currentTarget.value })}
      />
      <select aria-label="State" value={state} onChange={(event) => changeQuery({ state: event.currentTarget.value })}>
        <option value="">all states</option>
        {serverStates.map((one) => (
          <option key={one} value={one}>
            {stateWords[one]}
          </option>
        ))}
      </select>
    </div>
  )
  const title =
    shown.length === all.length ? plural(all.length, 'server') : `${shown.length} of ${plural(all.length, 'server')}`
  return (
    <Section title={title} aside={filters}>
      {shown.length > 0 ? (
        <ServerTable rows={shown} />
      ) : (
        <p class="quiet">{all.length === 0 ? noServersText(of) : 'No server fits the filter.'}</p>
      )}
    </Section>
  )
}
