/**
 * What goes over the wire, as zod schemas: the OpenAPI document is made of them. They describe; what a body is refused
 * for, and in which words, is said by `rules/validation.ts`, and a property test holds the two equal.
 */
import * as z from 'zod'
import { maxBuildNameLength, maxNamespaceLength } from '../../rules/model/names.js'
import { serverStates } from '../../rules/model/resources.js'
import type {
  Allocation,
  GameServer,
  GameServerBuild,
  GameServerBuildDetail,
  GameServerDetail,
} from '../../rules/model/wire.js'

/** Those with a name of their own in the document. */
export const named = z.registry<{ id: string }>()

function as<T extends z.ZodType>(id: string, schema: T): T {
  named.add(schema, { id })
  return schema
}

const label = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/
const guid = /^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$/

const count = z.int().min(0)
const port = z.int().min(1).max(65_535)
const seconds = z.int().min(1).exactOptional()
const text = z.string().nullish()
const time = z.iso.datetime().describe('RFC 3339, in UTC.')

/** As Kubernetes writes amounts. */
const quantity = z.union([
  z.string().regex(/^\+?(\d+(\.\d*)?|\.\d+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?$/),
  z.number().min(0),
  z.null(),
])

const containerPort = z.looseObject({
  name: text,
  containerPort: port,
  protocol: z.enum(['TCP', 'UDP', 'SCTP']).nullish(),
})

const container = as(
  'Container',
  z.looseObject({
    name: text,
    image: text,
    workingDir: text,
    command: z.array(z.string()).nullish(),
    args: z.array(z.string()).nullish(),
    env: z.array(z.looseObject({ name: z.string().regex(/^[^=\0]+$/), value: text })).nullish(),
    ports: z
      .array(containerPort)
      .refine(everyNameOnce, 'a name must name one port')
      .nullish()
      .describe('One name names one port.'),
    resources: z.looseObject({ limits: z.record(z.string(), quantity).nullish() }).nullish(),
  }),
)

const podTemplate = as(
  'PodTemplateSpec',
  z
    .looseObject({
      spec: z.looseObject({
        containers: z.array(container).min(1),
        terminationGracePeriodSeconds: count.nullish(),
      }),
    })
    .describe(
      'A Kubernetes PodTemplateSpec, at most 64 levels deep. Which of its fields count depends on the backend.',
    ),
)

const healthLimits = z
  .strictObject({
    firstHeartbeatSeconds: seconds,
    silenceSeconds: seconds,
    initializingSeconds: seconds,
    sessionSeconds: seconds,
    endLongSessions: z.boolean().exactOptional().describe('Says something with sessionSeconds only.'),
  })
  .refine((limits) => limits.endLongSessions === undefined || limits.sessionSeconds !== undefined)
  .meta({ dependentRequired: { endLongSessions: ['sessionSeconds'] } })

const buildSpec = as(
  'GameServerBuildSpec',
  z
    .strictObject({
      buildID: z.string().min(1).max(128).describe('What an allocation names. In use by one build of the fleet.'),
      standingBy: count.describe('How many idle servers to keep ready; at most max.'),
      max: count.describe('The most servers there may be, idle and Active together.'),
      portsToExpose: z
        .array(port)
        .refine((ports) => new Set(ports).size === ports.length, 'must not repeat a port')
        .meta({ uniqueItems: true }),
      crashesToMarkUnhealthy: z.int().min(1).exactOptional(),
      health: healthLimits.exactOptional().describe("Limits of this build in place of the fleet's."),
      template: podTemplate,
      buildMetadata: z.record(z.string(), z.string()).exactOptional().describe('Handed to every game server.'),
    })
    .refine(({ standingBy, max }) => standingBy <= max, 'standingBy must be at most max'),
)

/** In the shapes of `compat: 'thundernetes'`. */
const otherSpec = as(
  'ThundernetesBuildSpec',
  z.looseObject({
    ...buildSpec.shape,
    standingBy: count.default(0),
    max: count.default(0),
    crashesToMarkUnhealthy: count.default(5).describe('0 is 5.'),
    buildMetadata: z.array(z.object({ key: z.string(), value: z.string() })).exactOptional(),
  }),
)

const buildName = z.string().max(maxBuildNameLength).regex(label)
const namespace = z.string().max(maxNamespaceLength).regex(label)

/** Of a create: what is not named here is ignored, so that a build may be sent back as it was got. */
export const buildInput = as(
  'GameServerBuildInput',
  z.looseObject({
    metadata: z.looseObject({
      name: buildName,
      namespace: namespace.exactOptional().describe('`default` when absent.'),
    }),
    spec: buildSpec,
  }),
)

export const otherBuildInput = as('ThundernetesBuildInput', z.looseObject({ ...buildInput.shape, spec: otherSpec }))

export const buildPatch = as(
  'GameServerBuildPatch',
  z
    .strictObject({ standingBy: count.exactOptional(), max: count.exactOptional() })
    .refine((patch) => patch.standingBy !== undefined || patch.max !== undefined)
    .meta({ minProperties: 1 }),
)

export const allocationRequest = as(
  'AllocationRequest',
  z.looseObject({
    buildID: z.string().min(1).describe('The spec.buildID of a build.'),
    sessionID: z.string().regex(guid).describe('A GUID. The same one always gets the same server.'),
    sessionCookie: z.string().exactOptional().describe('Handed to the game server.'),
    initialPlayers: z
      .array(z.string())
      .exactOptional()
      .describe('Ids of the players expected first; handed to the game server.'),
  }),
)

const metadata = as(
  'Metadata',
  z.object({ name: z.string(), namespace: z.string(), creationTimestamp: time.exactOptional() }),
)

const condition = as(
  'Condition',
  z.object({
    type: z.string(),
    status: z.literal('True'),
    reason: z.string(),
    message: z.string(),
    lastTransitionTime: time,
  }),
)

const apiVersion = z.string().regex(/^[^/]+\/v1alpha1$/)

export const gameServerBuild = as(
  'GameServerBuild',
  z.object({
    apiVersion,
    kind: z.literal('GameServerBuild'),
    metadata,
    spec: buildSpec,
    status: z.object({
      currentActive: count,
      currentStandingBy: count,
      crashesCount: count,
      currentPending: count,
      currentInitializing: count,
      health: z.enum(['Healthy', 'Unhealthy']),
      currentStandingByReadyDesired: z.string().regex(/^\d+\/\d+$/),
      rollout: z.object({ updated: count, outdated: count }).exactOptional(),
      conditions: z.array(condition).exactOptional().describe('What keeps the build from its servers now.'),
    }),
  }) satisfies z.ZodType<GameServerBuild>,
)

export const otherBuild = as('ThundernetesBuild', z.object({ ...gameServerBuild.shape, spec: otherSpec }))

export const gameServer = as(
  'GameServer',
  z.object({
    apiVersion,
    kind: z.literal('GameServer'),
    metadata,
    status: z.object({
      state: z.enum(serverStates),
      health: z.enum(['Healthy', 'Unhealthy', 'Unknown']),
      publicIP: z.string().describe('Empty until known.'),
      ports: z
        .string()
        .regex(/^(\d+:\d+(,\d+:\d+)*)?$/)
        .describe('`container:public`, comma-joined.'),
      nodeName: z.string(),
      sessionID: z.string().exactOptional().describe('While Active.'),
      reachedInitializingOn: time.exactOptional(),
      reachedStandingByOn: time.exactOptional(),
      reachedActiveOn: time.exactOptional(),
      message: z.string().exactOptional().describe('Why it is still Pending, or why it ends.'),
    }),
  }) satisfies z.ZodType<GameServer>,
)

export const gameServerDetail = as(
  'GameServerDetail',
  z.object({
    apiVersion,
    kind: z.literal('GameServerDetail'),
    metadata,
    spec: z.object({ connectedPlayersCount: count, connectedPlayers: z.array(z.string()) }),
  }) satisfies z.ZodType<GameServerDetail>,
)

export const gameServerBuildDetail = as(
  'GameServerBuildDetail',
  z.object({ ...gameServerDetail.shape, items: z.array(gameServerDetail) }) satisfies z.ZodType<GameServerBuildDetail>,
)

export const gameServerBuilds = as('GameServerBuilds', gameServerBuild.array())
export const gameServers = as('GameServers', gameServer.array())
export const oneGameServerDetail = as('OneGameServerDetail', gameServerDetail.array().length(1))

export const gameServerBuildList = as('GameServerBuildList', listOf(otherBuild))
export const gameServerList = as('GameServerList', listOf(gameServer))
export const gameServerDetailList = as('GameServerDetailList', listOf(gameServerDetail))

export const allocation = as(
  'Allocation',
  z.object({
    IPV4Address: z.string(),
    Ports: z.string().describe('`container:public`, comma-joined. Players connect to the public one.'),
    SessionID: z.string().regex(guid),
  }) satisfies z.ZodType<Allocation>,
)

export const done = as('Done', z.object({ message: z.string() }))

export const errorBody = as('Error', z.object({ error: z.string().describe('A sentence that names what is wrong.') }))

export const health = as('Health', z.object({ status: z.literal('ok') }))

export const readiness = as(
  'Readiness',
  z.object({
    ready: z.boolean(),
    leads: z.boolean().describe('False while another host leads the fleet, or this one closes.'),
    store: z.boolean().describe('Whether it answers.'),
    backend: z.boolean().describe('Whether it answers.'),
  }),
)

export const unready = as('Unready', z.union([readiness, errorBody]))

const ref = z.object({ namespace: z.string(), name: z.string() })

/** One event of the stream. What else it has depends on its type. */
export const fleetEvent = as(
  'FleetEvent',
  z.looseObject({
    type: z.string(),
    seq: count,
    at: z.number().exactOptional().describe('Wall time in ms since 1970.'),
    message: z.string(),
    build: ref.exactOptional(),
    server: ref.exactOptional(),
  }),
)
function everyNameOnce(ports: readonly { readonly name?: unknown; readonly containerPort: number }[]): boolean {
  const numbers = new Map<unknown, number>()
  return ports.every(({ name, containerPort }) => {
    if (name === undefined || name === null) return true
    const other = numbers.get(name) ?? containerPort
    numbers.set(name, containerPort)
    return other === containerPort
  })
}

/** As Kubernetes lists. */
function listOf<T extends z.ZodType>(items: T) {
  return z.object({ metadata: z.object({}), items: z.array(items) })
}
