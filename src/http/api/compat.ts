/**
 * The shapes in which the management API reads and answers: its own, or those of another project, so that what was
 * written for that one works here. Each difference is a row in docs/reference/http-api.md. Pure.
 */
import { isObject } from '../../rules/validation/problem.js'
import { specFields } from '../../rules/validation/requests.js'
import type { GameServer, GameServerBuild, GameServerBuildDetail, GameServerDetail } from '../../rules/model/wire.js'

/** `thundernetes`: as the GameServer API of that project answers. */
export type Compat = 'thundernetes'

export interface Dialect {
  readonly created: 200 | 201
  /** What is read in place of a create's body. */
  input(body: unknown): unknown
  /** What is read in place of a patch's body. */
  change(body: unknown): unknown
  build(build: GameServerBuild): unknown
  builds(builds: readonly GameServerBuild[]): unknown
  servers(servers: readonly GameServer[]): unknown
  detail(detail: GameServerDetail): unknown
  buildDetail(detail: GameServerBuildDetail): unknown
  /** The servers, and the details, of a build that there is not. Undefined: 404. */
  readonly ofNoBuild: unknown
}

export function dialectOf(compat: Compat | undefined): Dialect {
  return compat === undefined ? own : thundernetes
}

/** One object for a build's details, an array for one server's: the service description has it so. */
const own: Dialect = {
  created: 200,
  input: (body) => body,
  change: (body) => body,
  build: (build) => build,
  builds: (builds) => builds,
  servers: (servers) => servers,
  detail: (detail) => [detail],
  buildDetail: (detail) => detail,
  ofNoBuild: undefined,
}

const thundernetes: Dialect = {
  created: 201,
  input: (body) => (isObject(body) && isObject(body['spec']) ? { ...body, spec: specFrom(body['spec']) } : body),
  change: (body) => (isObject(body) ? { standingBy: body['standingBy'], max: body['max'] } : body),
  build: buildFor,
  builds: (builds) => listOf(builds.map(buildFor)),
  servers: listOf,
  detail: (detail) => detail,
  buildDetail: ({ items }) => listOf(items),
  ofNoBuild: listOf([]),
}

/** As Kubernetes lists. */
function listOf(items: readonly unknown[]): unknown {
  return { metadata: {}, items }
}

/** The default of its resource definition. */
const crashesUnlessTold = 5

/** Fields that only that project knows, such as `titleID`, are left out, as Kubernetes leaves out what it does not know. */
function specFrom(given: Readonly<Record<string, unknown>>): unknown {
  const known = Object.fromEntries(Object.entries(given).filter(([field]) => specFields.has(field)))
  const { standingBy = 0, max = 0, crashesToMarkUnhealthy, buildMetadata } = known
  return {
    ...known,
    standingBy,
    max,
    crashesToMarkUnhealthy: crashesToMarkUnhealthy || crashesUnlessTold,
    ...(Array.isArray(buildMetadata) && { buildMetadata: metadataFrom(buildMetadata) }),
  }
}

/** `[{ key, value }]` there, an object here. Of a key that is there twice the last counts, as it does in the SDK. */
function metadataFrom(items: readonly unknown[]): unknown {
  const entries = items.flatMap((item) =>
    isObject(item) && typeof item['key'] === 'string' ? [[item['key'], item['value']] as const] : [],
  )
  // What is not of that shape is left for the rules to refuse.
  return entries.length === items.length ? Object.fromEntries(entries) : items
}

function buildFor(build: GameServerBuild): unknown {
  const { buildMetadata, ...spec } = build.spec
  if (buildMetadata === undefined) return build
  const items = Object.entries(buildMetadata).map(([key, value]) => ({ key, value }))
  return { ...build, spec: { ...spec, buildMetadata: items } }
}
