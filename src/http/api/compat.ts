/**
 * The JSON that the management API reads and writes: gamekeeper's own format, or the format of another project, so that
 * clients written for that project work here. docs/reference/http-api.md lists every difference. Pure.
 */
import type {
  AllocationBody,
  AllocationDetails,
  GameServer,
  GameServerBuild,
  GameServerBuildDetail,
  GameServerDetail,
} from '../../rules/model/wire.js'
import { allocationRequest } from '../../rules/validation/allocation-schema.js'
import { isObject } from '../../rules/validation/problem.js'
import { specFields } from '../../rules/validation/build-schema.js'
import type { Compat } from '../openapi/operation-docs.js'

/** The result of `fleet.allocate`. Only the fields of the service description are required. */
export type AnsweredAllocation = Omit<AllocationBody, 'details'> & Partial<AllocationDetails>

export interface Dialect {
  readonly created: 200 | 201
  /** Converts the body of a create request. */
  input(body: unknown): unknown
  /** Converts the body of a patch request. */
  change(body: unknown): unknown
  build(build: GameServerBuild): unknown
  builds(builds: readonly GameServerBuild[]): unknown
  servers(servers: readonly GameServer[]): unknown
  detail(detail: GameServerDetail): unknown
  buildDetail(detail: GameServerBuildDetail): unknown
  /** Converts the body of an allocation request. */
  request(body: unknown): unknown
  /** Converts the response to an allocation. */
  allocation(allocation: AnsweredAllocation): AllocationBody
  /** The body of an error. Undefined: gamekeeper's own. */
  readonly errorBody: ((message: string) => unknown) | undefined
  /** Returned as the servers or details of a build that does not exist. If undefined, the response is 404. */
  readonly ofMissingBuild: unknown
}

export function dialectOf(compat: Compat | undefined): Dialect {
  return compat === 'thundernetes' ? thundernetes : native
}

/**
 * The details of a build are an object, but the details of one server are an array with one element: existing clients rely
 * on this.
 */
const native: Dialect = {
  created: 200,
  input: (body) => body,
  change: (body) => body,
  build: (build) => build,
  builds: (builds) => builds,
  servers: (servers) => servers,
  detail: (detail) => [detail],
  buildDetail: (detail) => detail,
  request: (body) => body,
  allocation: withDetails,
  errorBody: undefined,
  ofMissingBuild: undefined,
}

const allocationFields = Object.keys(allocationRequest.properties)

const thundernetes: Dialect = {
  created: 201,
  input(body) {
    const build = inKnownCase(body, ['metadata', 'spec'])
    if (!isObject(build) || !isObject(build['spec'])) return build
    const metadata = inKnownCase(build['metadata'], ['name', 'namespace'])
    return { ...build, metadata, spec: specFrom(build['spec']) }
  },
  change(body) {
    const change = inKnownCase(body, ['standingBy', 'max'])
    return isObject(change) ? { standingBy: change['standingBy'], max: change['max'] } : change
  },
  build: buildFor,
  builds: (builds) => listOf(builds.map(buildFor)),
  servers: listOf,
  detail: (detail) => detail,
  buildDetail: ({ items }) => listOf(items),
  request: (body) => knownIn(inKnownCase(body, allocationFields), allocationFields),
  allocation: ({ IPV4Address, Ports, SessionID }) => ({ IPV4Address, Ports, SessionID }),
  // Its clients accept no other field.
  errorBody: (error) => ({ error }),
  ofMissingBuild: listOf([]),
}

/** Go's decoder takes the names of fields in any case. If a field is given twice, the one that is written as known wins. */
function inKnownCase(body: unknown, known: readonly string[]): unknown {
  if (!isObject(body)) return body
  const names = new Map(known.map((name) => [name.toLowerCase(), name]))
  const fields = Object.entries(body)
  const renamed = fields.map(([name, value]) => [names.get(name.toLowerCase()) ?? name, value] as const)
  return Object.fromEntries([...renamed, ...fields.filter(([name]) => known.includes(name))])
}

/** Drops unknown fields, as Go's decoder does. */
function knownIn(body: unknown, known: readonly string[]): unknown {
  if (!isObject(body)) return body
  return Object.fromEntries(Object.entries(body).filter(([name]) => known.includes(name)))
}

/** A fleet that is not of this package may return only the three fields, which are then the answer as they are. */
function withDetails(allocation: AnsweredAllocation): AllocationBody {
  const { IPV4Address, Ports, SessionID, server, address = IPV4Address, ports = [], buildMismatch } = allocation
  if (server === undefined) return allocation
  const details = { server, address, ports }
  return { IPV4Address, Ports, SessionID, details: buildMismatch ? { ...details, buildMismatch } : details }
}

/** A list in the format that Kubernetes uses. */
function listOf(items: readonly unknown[]): unknown {
  return { metadata: {}, items }
}

/** The default in that project's CRD. */
const defaultCrashesToMarkUnhealthy = 5

/** Drops fields that exist only in that project, such as `titleID`, just as Kubernetes prunes unknown fields. */
function specFrom(spec: Readonly<Record<string, unknown>>): unknown {
  const given = Object.entries(inKnownCase(spec, [...specFields]) ?? {})
  const fields: Record<string, unknown> = Object.fromEntries(given.filter(([field]) => specFields.has(field)))
  const { standingBy = 0, max = 0, crashesToMarkUnhealthy, buildMetadata } = fields
  return {
    ...fields,
    standingBy,
    max,
    crashesToMarkUnhealthy: crashesToMarkUnhealthy || defaultCrashesToMarkUnhealthy,
    ...(Array.isArray(buildMetadata) && { buildMetadata: metadataFrom(buildMetadata) }),
  }
}

/** Converts `[{ key, value }]` to an object. If a key occurs twice, the last value wins, as in the SDK. */
function metadataFrom(items: readonly unknown[]): unknown {
  const entries = items.flatMap((item) =>
    isObject(item) && typeof item['key'] === 'string' ? [[item['key'], item['value']] as const] : [],
  )
  // Items of any other shape are returned unchanged, and validation rejects them.
  return entries.length === items.length ? Object.fromEntries(entries) : items
}

function buildFor(build: GameServerBuild): unknown {
  const { buildMetadata, ...spec } = build.spec
  if (buildMetadata === undefined) return build
  const items = Object.entries(buildMetadata).map(([key, value]) => ({ key, value }))
  return { ...build, spec: { ...spec, buildMetadata: items } }
}
