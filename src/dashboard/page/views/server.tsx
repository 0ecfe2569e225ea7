/** One server: where it is, who plays on it, what has happened to it, and what it prints. */
import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { FleetError } from '../../../contracts/errors.js'
import type { FleetEvent } from '../../../contracts/events.js'
import { keyOf, type Ref } from '../../../rules/model/resources.js'
import type { GameServer } from '../../../rules/model/wire.js'
import { rights } from '../data/access.js'
import { connections, fleet, health, model } from '../data/live.js'
import { connectedTo, type StreamedEvent } from '../data/model.js'
import { linkTo } from '../data/router.js'
import { findServer } from '../data/search.js'
import { CopyButton, Failure, HealthTag, Instant, Loading, Notice, Section, StateTag } from '../parts/parts.js'
import { Timeline } from '../parts/timeline.js'
import { ServerActions } from './server-actions.js'
import { ServerLog } from './server-log.js'
import { ServerData } from './server/data.js'
import { LifeBar } from './server/life-bar.js'
import { SessionsOfServer } from './server/sessions.js'
import { Usage } from './server/usage.js'

export function ServerView({ of }: { readonly of: Ref }) {
  const row = findServer(model.value, of)
  const past = useSignal<readonly FleetEvent[] | undefined>(undefined)
  const server = useSignal<GameServer | undefined>(undefined)
  const failure = useSignal<FleetError | undefined>(undefined)
  const state = row?.state
  useEffect(() => void rights.read(of), [keyOf(of), connections.value])
  useEffect(() => {
    const stop = new AbortController()
    fleet.explain(of, { signal: stop.signal }).then(
      (history) => {
        past.value = history.events
        server.value = history.server ?? server.value
        failure.value = undefined
      },
      (error: unknown) => {
        if (!stop.signal.aborted && FleetError.is(error)) failure.value = error
      },
    )
    return () => stop.abort()
    // Address, ports and data are in no event. A restarted host numbers its events anew.
  }, [state, lastDataChange(model.value.events, of), connections.value])

  if (failure.value?.code === 'not-found' && row === undefined) {
    return (
      <Notice title={`Nothing is known of a server ${of.name}`} isView>
        <p>It no longer exists, and the host's log has no events about it.</p>
      </Notice>
    )
  }
  if (failure.value && past.value === undefined)
    return <Failure title="The server cannot be read" error={failure.value} />
  if (past.value === undefined) return <Loading what="the server" />
  const events = merged(past.value, model.value.events, of)
  const build = buildOf(events)
  return (
    <>
      <header class="page-title">
        <h1>{of.name}</h1>
        {row ? <StateTag state={row.state} /> : <span class="tag">ended</span>}
        {row ? <HealthTag health={row.health} /> : null}
        {build ? (
          <span class="quiet">
            server of <a href={linkTo.build(build)}>{build.name}</a>
          </span>
        ) : null}
        {row ? <ServerActions row={row} /> : null}
      </header>
      {row ? (
        <Place
          of={of}
          server={server.value}
          isMeasured={row.state !== 'Pending' && health.value?.measuresUsage === true && rights.may('readUsage', of)}
          players={connectedTo(row)}
          maintenance={row.maintenance}
          reservedUntil={row.reservedUntil}
        />
      ) : null}
      {row ? <SessionsOfServer server={row} /> : null}
      {server.value ? <ServerData of={server.value} /> : null}
      <div class="columns wide-second">
        <Section title="What happened">
          <LifeBar events={events} />
          <Timeline events={events} />
        </Section>
        <ServerLog of={of} isRunning={row !== undefined && row.state !== 'Pending'} />
      </div>
    </>
  )
}

interface PlaceProps {
  readonly of: Ref
  readonly isMeasured: boolean
  readonly server: GameServer | undefined
  /** Those that are connected. */
  readonly players: readonly string[]
  /** Wall time in ms. */
  readonly maintenance: number | undefined
  /** Wall time in ms. */
  readonly reservedUntil: number | undefined
}

function Place({ of, isMeasured, server, players, maintenance, reservedUntil }: PlaceProps) {
  const { publicIP = '', ports = '', nodeName = '', message } = server?.status ?? {}
  const addresses = publicIP === '' ? [] : ports.split(',').map((pair) => `${publicIP}:${pair.split(':')[1] ?? ''}`)
  return (
    <section class="panel" aria-label="Where it is">
      {message === undefined ? null : <p class="problem">{message}</p>}
      <dl class="facts-list">
        <div>
          <dt>address</dt>
          <dd>
            {addresses.length === 0 ? <span class="quiet">not known yet</span> : null}
            {addresses.map((address) => (
              <span class="address" key={address}>
                <code>{address}</code> <CopyButton text={address} name={address} />
              </span>
            ))}
          </dd>
        </div>
        <div>
          <dt>node</dt>
          <dd>{nodeName || <span class="quiet">–</span>}</dd>
        </div>
        <div>
          <dt>players</dt>
          <dd>{players.length === 0 ? <span class="quiet">none</span> : players.join(', ')}</dd>
        </div>
        {isMeasured ? <Usage of={of} /> : null}
        {reservedUntil === undefined ? null : (
          <div>
            <dt>reserved until</dt>
            <dd>
              <Instant at={reservedUntil} />
            </dd>
          </div>
        )}
        {maintenance === undefined ? null : (
          <div>
            <dt>maintenance</dt>
            <dd>
              <Instant at={maintenance} />
            </dd>
          </div>
        )}
      </dl>
    </section>
  )
}

/** What the host knew when it was asked, and what has come since. */
function merged(past: readonly FleetEvent[], recent: readonly StreamedEvent[], of: Ref): readonly FleetEvent[] {
  const last = past.at(-1)?.seq ?? 0
  const key = keyOf(of)
  const isNew = (event: StreamedEvent): event is FleetEvent =>
    event.seq > last && event.type !== 'EventsDropped' && 'server' in event && keyOf(event.server) === key
  return [...past, ...recent.filter(isNew)]
}

/** The number of the last event that says that the server's data changed; 0 without one. */
function lastDataChange(events: readonly StreamedEvent[], of: Ref): number {
  const key = keyOf(of)
  return events.findLast((event) => event.type === 'ServerDataChanged' && keyOf(event.server) === key)?.seq ?? 0
}

function buildOf(events: readonly FleetEvent[]): Ref | undefined {
  for (const event of events) if ('build' in event) return event.build
  return undefined
}
