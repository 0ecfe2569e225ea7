/** What the agents of a fleet need, built once: for the one that `createFleet` starts, and for those that get the fleet from the host app. */
import type { AgentTarget, ForwardHeartbeat } from '../agent/index.js'
import { FleetError } from '../contracts/errors.js'
import type { OwnAllocation } from '../contracts/sessions.js'
import type { ServerEntry } from '../engine/state/entries.js'
import { noData, type ServerData } from '../rules/model/server-data.js'
import { readOwnAllocation } from '../rules/validation/requests.js'
import type { Audit } from './audit.js'
import type { LeaderTerm } from './leadership/leader-term.js'
import { refusedRequest } from './refused-request.js'

export interface AgentTargetDependencies {
  /** A function, because the agent listens before the term begins. So does `audit`. */
  readonly term: () => LeaderTerm
  readonly audit: () => Audit
  readonly forwardHeartbeat: ForwardHeartbeat | undefined
}

export function agentTarget({ term, audit, forwardHeartbeat }: AgentTargetDependencies): AgentTarget {
  return {
    heartbeat: (id, heartbeat) => term().heartbeat(id, heartbeat),
    knowsServer: (id) => term().knowsServer(id),
    holdHeartbeat: (id, hold) => term().holdHeartbeat(id, hold),
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
