/** The operations of the HTTP APIs and the role that each requires. */

/** `manage` includes `read`. */
export const roles = ['allocate', 'read', 'manage'] as const
export type Role = (typeof roles)[number]

/** docs/guides/securing.md lists these operations; a test compares the two. */
export const operations = {
  allocate: 'allocate',
  allocateMany: 'allocate',
  listBuilds: 'read',
  createBuild: 'manage',
  applyBuild: 'manage',
  getBuild: 'read',
  patchBuild: 'manage',
  updateBuild: 'manage',
  drainBuild: 'manage',
  resumeBuild: 'manage',
  deleteBuild: 'manage',
  listServers: 'read',
  listServersOfBuild: 'read',
  getServer: 'read',
  updateServer: 'manage',
  explainServer: 'read',
  readLogs: 'read',
  writeStdin: 'read',
  drainServer: 'manage',
  deleteServer: 'manage',
  reserveServer: 'manage',
  releaseServer: 'manage',
  announceServerMaintenance: 'manage',
  withdrawServerMaintenance: 'manage',
  announceNodeMaintenance: 'manage',
  withdrawNodeMaintenance: 'manage',
  listSessions: 'read',
  listSessionsOfBuild: 'read',
  getSession: 'read',
  getSessionOfPlayer: 'read',
  endSession: 'manage',
  reserveSeats: 'allocate',
  releaseSeats: 'allocate',
  findSessionsWithRoom: 'read',
  joinSession: 'allocate',
  getBuildDetail: 'read',
  getServerDetail: 'read',
  drainFleet: 'manage',
  readStats: 'read',
  readActivity: 'read',
  readBuildActivity: 'read',
  readHealth: 'read',
  readEvents: 'read',
  readMetrics: 'read',
} as const satisfies Readonly<Record<string, Role>>

export type OperationName = keyof typeof operations

export const operationNames = Object.keys(operations).filter((name): name is OperationName => name in operations)

/** Public endpoints: they require no role, and the host app's hooks are not called. */
export const probes = ['checkHealth', 'checkReadiness'] as const
export type ProbeName = (typeof probes)[number]

export interface Operation {
  readonly name: OperationName
  readonly role: Role
}
