/** What can be asked for over HTTP: each operation's name, and the role that it takes to ask for it. */

/** `read` looks, `manage` changes (and looks), `allocate` hands out servers. */
export const roles = ['allocate', 'read', 'manage'] as const
export type Role = (typeof roles)[number]

/** Shown in docs/guides/securing.md; a test keeps the two equal. */
export const operations = {
  allocate: 'allocate',
  listBuilds: 'read',
  createBuild: 'manage',
  getBuild: 'read',
  patchBuild: 'manage',
  deleteBuild: 'manage',
  listServers: 'read',
  listServersOfBuild: 'read',
  getServer: 'read',
  deleteServer: 'manage',
  getBuildDetail: 'read',
  getServerDetail: 'read',
  readEvents: 'read',
  readMetrics: 'read',
} as const satisfies Readonly<Record<string, Role>>

export type OperationName = keyof typeof operations

export const operationNames = Object.keys(operations).filter((name): name is OperationName => name in operations)

/** Anybody may ask for these, so they take no role and no hook of a host stands before them. */
export const probes = ['checkHealth', 'checkReadiness'] as const
export type ProbeName = (typeof probes)[number]

export interface Operation {
  readonly name: OperationName
  readonly role: Role
}
