/** What the agents of a fleet need, built once: for the one that `createFleet` starts, and for those that get the fleet from the host app. */
import { setMaxListeners } from 'node:events'
import type { AgentTarget, ForwardHeartbeat } from '../agent/index.js'
import { systemClock } from '../contracts/clock.js'
import type { LeaderLink } from '../contracts/elector.js'
import { FleetError } from '../contracts/errors.js'
import type { OwnAllocation } from '../contracts/sessions.js'
import type { ServerEntry } from '../engine/state/entries.js'
import { parkTimeMs } from '../rules/game/heartbeat.js'
import { noData, type ServerData } from '../rules/lifecycle/server-data.js'
import { readOwnAllocation } from '../rules/validation/allocation-schema.js'
import { type EitherSignal, eitherSignal } from '../util/signals.js'
import { type Audit, refusedRequest } from './audit.js'
import type { LeaderTerm } from './leader-term.js'

interface AgentTargetDependencies {
  /** A function, because the agent listens before the term begins. So does `audit`. */
  readonly term: () => LeaderTerm
  readonly audit: () => Audit
  readonly forwardHeartbeat: ForwardHeartbeat | undefined
}

export function agentTarget({ term, audit, forwardHeartbeat }: AgentTargetDependencies): AgentTarget {
  return {
    heartbeat: (id, heartbeat) => term().heartbeat(id, heartbeat),
    knowsServer: (id) => term().knowsServer(id),
    parkHeartbeat: (id, parked) => term().parkHeartbeat(id, parked),
    updateOwnData: (id, change) => updateOwnData(term(), id, change),
    allocateOwnServer: (id, request) => allocateOwnServer(term(), audit(), id, request),
    forwardHeartbeat,
  }
}

async function allocateOwnServer(
  term: LeaderTerm,
  audit: Audit,
  sessionHostId: string,
  request: unknown,
): Promise<OwnAllocation> {
  const checked = readOwnAllocation(request)
  if (!checked.ok) throw refusedRequest(checked.problem)
  const { selfAllocation } = term.engine()
  const entry = serverOf(term, sessionHostId)
  const { build, ref: server } = entry
  const caller = { kind: 'game', name: server.name } as const
  const subjectOf = (sessionID = checked.value.sessionID) => ({
    build: build.ref,
    server,
    ...(sessionID !== undefined && { sessionID }),
  })
  const allocate = () => selfAllocation.allocate(entry, checked.value)
  return { sessionID: await audit.call('allocate', { caller }, subjectOf, allocate) }
}

async function updateOwnData(term: LeaderTerm, sessionHostId: string, change: unknown): Promise<ServerData> {
  const { serverData } = term.engine()
  const entry = serverOf(term, sessionHostId)
  await serverData.update(entry, change)
  return entry.record.data ?? noData
}

function serverOf(term: LeaderTerm, sessionHostId: string): ServerEntry {
  const entry = term.engine().inventory.serverByHostId(sessionHostId)
  if (entry) return entry
  throw new FleetError('not-found', 'no server of this fleet has this id')
}

// Passes heartbeats on to the host that leads. They need no proof of who sent them: the id in their path is the server's secret.

/**
 * How long the leader may take, beyond the time for which it holds a heartbeat. With the time that it holds one during an allocation, it is
 * less than the second after which the GSDK for Java gives up.
 */
const answerMs = 450
/** How long no heartbeat is sent to a leader that has not answered one. */
const pauseMs = 1_000

interface HeartbeatForwarderOptions {
  /** Undefined while the fleet has none. */
  readonly link: () => LeaderLink | undefined
  /** Ends those that the leader holds. */
  readonly closing: AbortSignal
  /** The fleet's limit, up to which a heartbeat is held. */
  readonly heartbeatIntervalMs: number
}

export function heartbeatForwarder(options: HeartbeatForwarderOptions): ForwardHeartbeat {
  const { link, closing, heartbeatIntervalMs } = options
  setMaxListeners(0, closing)
  /** The leader that has not answered, and when it is asked again. */
  let silent: { readonly leader: string; readonly until: number } | undefined
  return (id, body, { prefer, waitMs, signal, suffix = '' }) => {
    const known = link()
    // This host answers if it leads, or knows no host that does.
    const leader = known === undefined || known.leads() || closing.aborted ? undefined : known.leader()
    if (known === undefined || leader === undefined) return undefined
    if (leader === silent?.leader && systemClock.elapsed() < silent.until) return undefined
    const stop = eitherSignal(signal, closing)
    const giveUp = () => {
      silent = { leader, until: systemClock.elapsed() + pauseMs }
      stop.abort()
    }
    const cancel = systemClock.after(parkTimeMs(waitMs, heartbeatIntervalMs, true) + answerMs, giveUp)
    return send(known, leader, { id, body, prefer, suffix }, stop).finally(() => {
      cancel()
      stop.release()
    })
  }
}

interface ForwardedHeartbeat {
  readonly id: string
  readonly body: string
  readonly prefer: string | undefined
  readonly suffix: string
}

async function send(
  link: LeaderLink,
  leader: string,
  { id, body, prefer, suffix }: ForwardedHeartbeat,
  stop: EitherSignal,
) {
  // The next leader has the news that a heartbeat held at the last one waits for.
  const unfollow = link.follow(() => {
    if (link.leader() !== leader) stop.abort()
  })
  const request = {
    method: 'PATCH',
    path: `/v1/sessionHosts/${encodeURIComponent(id)}${suffix}`,
    headers: { 'Content-Type': 'application/json', ...(prefer !== undefined && { Prefer: prefer }) },
    body: Buffer.from(body),
  }
  try {
    const sent = await link.send(leader, request, stop.signal)
    if ('failure' in sent) return undefined
    // Else it does not lead.
    const isAnswered = sent.response.status !== 503
    let text = ''
    for await (const part of sent.response.text) text += part
    return isAnswered ? { status: sent.response.status, text } : undefined
  } catch {
    return undefined // The connection broke. The game sends its next heartbeat soon.
  } finally {
    unfollow()
  }
}
