/**
 * The operations of the HTTP APIs, each described once. Routes, authorization, forwarding, the OpenAPI document and the client read this
 * table. Plain data without imports, because the client and the dashboard's page bring it to browsers.
 *
 * A further operation is a row here, its words and schemas in `openapi/operation-docs.ts`, a handler of the same name in `api/`, and a
 * call in `src/client`.
 */

/** `manage` includes `read`. */
export const roles = ['allocate', 'read', 'manage'] as const
export type Role = (typeof roles)[number]

export const methods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const
export type Method = (typeof methods)[number]

export interface Route {
  readonly method: Method
  /** Below the prefix at which the routes are mounted. `:name` stands for a segment. */
  readonly path: string
}

export interface OperationRow extends Route {
  readonly role: Role
  /** `allocation` if matchmakers call it at the allocation API. Default: `management`. */
  readonly api?: 'allocation'
  /** The names of its query parameters. */
  readonly query?: readonly string[]
  /** To call it twice has the effect of one call, so that the client may repeat it. Default: `GET` is, no other is. */
  readonly isIdempotent?: boolean
  /** About the host that answers, whether or not it leads, so that it is not forwarded. */
  readonly isOfHost?: true
  /** Its stream has to end when its host no longer leads. */
  readonly endsWithLead?: true
}

const builds = '/api/v1/gameserverbuilds'
const build = `${builds}/:namespace/:name`
const servers = '/api/v1/gameservers'
const server = `${servers}/:namespace/:name`
const node = '/api/v1/nodes/:node'
const sessions = '/api/v1/sessions'
const session = `${sessions}/:sessionID`
const isIdempotent = true
const page = ['limit', 'continue'] as const

/** What a matchmaker calls. Each session gets one server, however often it is allocated. */
const allocation = {
  method: 'POST',
  role: 'allocate',
  api: 'allocation',
  query: ['wait', 'confirm'],
  isIdempotent,
} as const

const table = {
  allocate: { ...allocation, path: '/api/v1/allocate' },
  allocateMany: { ...allocation, path: '/api/v1/allocate-many', query: ['wait'] },
  // Only with `compat: 'agones'`. A call without a session of its own is given one, which goes with it if it is repeated.
  allocateAsAgones: { ...allocation, path: '/gameserverallocation' },

  listBuilds: { method: 'GET', path: builds, role: 'read', query: page },
  createBuild: { method: 'POST', path: builds, role: 'manage' },
  applyBuild: { method: 'PUT', path: build, role: 'manage', isIdempotent },
  getBuild: { method: 'GET', path: build, role: 'read' },
  patchBuild: { method: 'PATCH', path: build, role: 'manage', isIdempotent },
  updateBuild: { method: 'PATCH', path: `${build}/spec`, role: 'manage', isIdempotent },
  readDemand: { method: 'GET', path: `${build}/demand`, role: 'read' },
  drainBuild: { method: 'POST', path: `${build}/drain`, role: 'manage' },
  resumeBuild: { method: 'POST', path: `${build}/resume`, role: 'manage', isIdempotent },
  deleteBuild: { method: 'DELETE', path: build, role: 'manage' },

  listServers: { method: 'GET', path: servers, role: 'read', query: page },
  listServersOfBuild: { method: 'GET', path: `${build}/gameservers`, role: 'read', query: page },
  getServer: { method: 'GET', path: server, role: 'read' },
  updateServer: { method: 'PATCH', path: server, role: 'manage' },
  explainServer: { method: 'GET', path: `${server}/history`, role: 'read' },
  readLogs: { method: 'GET', path: `${server}/logs`, role: 'read', query: ['follow', 'tail', 'origin'] },
  readUsage: { method: 'GET', path: `${server}/usage`, role: 'read' },
  // A line that is sent twice is two commands.
  writeStdin: { method: 'POST', path: `${server}/stdin`, role: 'read' },
  drainServer: { method: 'POST', path: `${server}/drain`, role: 'manage' },
  deleteServer: { method: 'DELETE', path: server, role: 'manage' },
  reserveServer: { method: 'POST', path: `${server}/reservation`, role: 'manage', isIdempotent },
  releaseServer: { method: 'DELETE', path: `${server}/reservation`, role: 'manage', isIdempotent },
  announceServerMaintenance: { method: 'POST', path: `${server}/maintenance`, role: 'manage', isIdempotent },
  withdrawServerMaintenance: { method: 'DELETE', path: `${server}/maintenance`, role: 'manage', isIdempotent },
  announceNodeMaintenance: { method: 'POST', path: `${node}/maintenance`, role: 'manage', isIdempotent },
  withdrawNodeMaintenance: { method: 'DELETE', path: `${node}/maintenance`, role: 'manage', isIdempotent },

  listSessions: { method: 'GET', path: sessions, role: 'read' },
  listSessionsOfBuild: { method: 'GET', path: `${build}/sessions`, role: 'read' },
  getSession: { method: 'GET', path: session, role: 'read', query: ['wait'] },
  getSessionOfPlayer: { method: 'GET', path: '/api/v1/players/:player/session', role: 'read' },
  endSession: { method: 'DELETE', path: session, role: 'manage' },
  // Each player gets one seat of a session, however often it is reserved.
  reserveSeats: { method: 'POST', path: `${session}/seats`, role: 'allocate', isIdempotent },
  releaseSeats: { method: 'POST', path: `${session}/seats/release`, role: 'allocate', isIdempotent },
  findSessionsWithRoom: { method: 'POST', path: '/api/v1/sessions-with-room', role: 'read', isIdempotent },
  joinSession: { method: 'POST', path: '/api/v1/join', role: 'allocate', isIdempotent, query: ['wait'] },

  getBuildDetail: { method: 'GET', path: `${build}/gameserverdetails`, role: 'read' },
  getServerDetail: { method: 'GET', path: '/api/v1/gameserverdetails/:namespace/:name', role: 'read' },

  drainFleet: { method: 'POST', path: '/api/v1/drain', role: 'manage' },
  readStats: { method: 'GET', path: '/api/v1/stats', role: 'read' },
  readActivity: { method: 'GET', path: '/api/v1/activity', role: 'read' },
  readBuildActivity: { method: 'GET', path: `${build}/activity`, role: 'read' },
  readProblems: { method: 'GET', path: '/api/v1/problems', role: 'read' },
  readHealth: { method: 'GET', path: '/api/v1/health', role: 'read', isOfHost: true },
  readEvents: {
    method: 'GET',
    path: '/api/v1/events',
    role: 'read',
    query: ['from', 'last', 'to', 'types', 'players'],
    endsWithLead: true,
  },
  readMetrics: { method: 'GET', path: '/metrics', role: 'read', isOfHost: true },
} as const satisfies Readonly<Record<string, OperationRow>>

export type OperationName = keyof typeof table

/** docs/guides/securing.md lists these operations; a test compares the two. */
export const operations: Readonly<Record<OperationName, OperationRow>> = table

export const operationNames = Object.keys(table).filter((name): name is OperationName => name in table)

/** Public endpoints: they require no role, and the host app's hooks are not called. */
export const probes = {
  checkHealth: { method: 'GET', path: '/healthz' },
  checkReadiness: { method: 'GET', path: '/readyz' },
} as const satisfies Readonly<Record<string, Route>>

export type ProbeName = keyof typeof probes

export const probeNames = ['checkHealth', 'checkReadiness'] as const satisfies readonly ProbeName[]

/** An operation as the host app's hooks see it. */
export interface Operation {
  readonly name: OperationName
  readonly role: Role
}

export function isIdempotentOperation(name: OperationName): boolean {
  const { method, isIdempotent = method === 'GET' } = operations[name]
  return isIdempotent
}

type ParameterIn<Path extends string> = Path extends `${string}/:${infer Name}/${infer Rest}`
  ? Name | ParameterIn<`/${Rest}`>
  : Path extends `${string}/:${infer Name}`
    ? Name
    : never

/** What the path of an operation names. */
export type PathParameter<N extends OperationName> = ParameterIn<(typeof table)[N]['path']>

/** The query parameters of all operations. */
export type QueryParameterName = {
  [N in OperationName]: (typeof table)[N] extends { readonly query: readonly (infer Name)[] } ? Name : never
}[OperationName]
