/**
 * Converts between Server records and GameServer objects, and between Detail records and GameServerDetail objects. A server's spec contains its
 * identity, the status everything else. Pure.
 */
import {
  type Counter,
  dataOrNone,
  mergedData,
  noData,
  type ServerData,
} from '../../../src/rules/lifecycle/server-data.js'
import {
  type Detail,
  type Ending,
  endingReasons,
  type Health,
  type Maintenance,
  maintenanceSources,
  type SeatHold,
  type Server,
  type ServerDraft,
  serverStates,
  type Session,
} from '../../../src/rules/model/resources.js'
import { defaultApiGroup } from '../../../src/rules/model/wire.js'
import { isObject, shown } from '../../../src/rules/validation/problem.js'
import { type Fields, objectAt, stringAt, stringsAt } from '../../../src/rules/validation/pod-template.js'
import { formatPortPairs, parsePortPairs } from '../../shared/public-ports.js'
import { type KubeObject, numberAt, type OwnerReference, rfc3339, timeAt, typeMetaOf } from '../client/kube-objects.js'
import type { FleetResources } from './custom-collection.js'

/** Hides server tokens from users who may read servers but not secrets. */
export interface TokenKey {
  encrypt(token: string, uid: string): string
  /**
   * If the token was encrypted with another key, it is lost. `token` is then a random-looking one that no game knows, so that no
   * heartbeat matches it.
   */
  decrypt(encrypted: string, uid: string): { readonly token: string; readonly tokenLost?: true }
  /** Whether it was encrypted for this uid, with the key that this host knows. */
  isGenuine(encrypted: string, uid: string): boolean
}

const healths: readonly Health[] = ['Healthy', 'Unhealthy', 'Unknown']

/**
 * Returns undefined if the object is not a valid server: it was created by hand, or for another version of the definitions.
 */
export function readServer(
  object: KubeObject,
  encryption: Pick<TokenKey, 'decrypt'>,
  group = defaultApiGroup,
): Server | undefined {
  const { name, namespace } = object.metadata
  const spec = objectAt(object, 'spec')
  const status = objectAt(object, 'status')
  const [uid, encrypted, build, buildUid] = identityFields.map((field) => stringAt(spec, field))
  // Both fields describe the same template, so read them from the same place.
  const template = stringAt(status, 'templateHash') === undefined ? spec : status
  const templateHash = stringAt(template, 'templateHash')
  const graceSeconds = numberAt(template, 'graceSeconds')
  const createdAt = timeAt(spec, 'createdAt')
  if (namespace === undefined || uid === undefined || encrypted === undefined || build === undefined) return undefined
  if (buildUid === undefined || templateHash === undefined || createdAt === undefined) return undefined
  const identity = { namespace, name, uid, ...encryption.decrypt(encrypted, uid), build, buildUid, createdAt }
  const { data } = readEditedData(object, group)
  return serverWith(identity, { templateHash, graceSeconds }, status, data)
}

/** What a server's spec says, and a status never changes. */
type Identity = Pick<Server, 'namespace' | 'name' | 'uid' | 'token' | 'tokenLost' | 'build' | 'buildUid' | 'createdAt'>

/** The same server with another status. */
export function withStatus(server: Server, status: Fields): Server {
  const { namespace, name, uid, token, tokenLost, build, buildUid, createdAt } = server
  const identity = { namespace, name, uid, token, ...(tokenLost && { tokenLost }), build, buildUid, createdAt }
  const templateHash = stringAt(status, 'templateHash')
  const template =
    templateHash === undefined ? server : { templateHash, graceSeconds: numberAt(status, 'graceSeconds') }
  return serverWith(identity, template, status, readData(status))
}

function serverWith(
  identity: Identity,
  { templateHash, graceSeconds }: { readonly templateHash: string; readonly graceSeconds?: number | undefined },
  status: Fields,
  data: ServerData | undefined,
): Server {
  const { createdAt, ...names } = identity
  const server: ServerDraft = {
    ...names,
    templateHash,
    ...(graceSeconds !== undefined && { graceSeconds }),
    createdAt,
    state: serverStates.find((state) => state === status['state']) ?? 'Pending',
    health: healths.find((health) => health === status['health']) ?? 'Unknown',
    sessions: readSessions(status),
  }
  const { publicIP, nodeName, ports } = status
  if (typeof publicIP === 'string') server.address = publicIP
  if (typeof nodeName === 'string') server.node = nodeName
  const pairs = parsePortPairs(ports)
  if (pairs) server.ports = pairs
  for (const field of times) {
    const at = timeAt(status, field)
    if (at !== undefined) server[field] = at
  }
  const startedSessions = numberAt(status, 'startedSessions')
  if (startedSessions !== undefined) server.startedSessions = startedSessions
  const maintenance = readMaintenance(status)
  if (maintenance) server.maintenance = maintenance
  if (data) server.data = data
  const ending = readEnding(status['ending'])
  if (ending) server.ending = ending
  return server
}

const identityFields = ['uid', 'token', 'build', 'buildUid'] as const
const times = ['reachedInitializingOn', 'reachedStandingByOn', 'reachedActiveOn', 'reservedUntil'] as const

export function newServerObject(
  server: Server,
  resources: FleetResources,
  encryption: Pick<TokenKey, 'encrypt'>,
  owner: OwnerReference | undefined,
): object {
  const { name, namespace, uid, token, build, buildUid, templateHash, graceSeconds, createdAt } = server
  const identity = { uid, token: encryption.encrypt(token, uid), build, buildUid, templateHash, graceSeconds }
  return {
    ...typeMetaOf(resources.servers),
    metadata: {
      name,
      namespace,
      labels: { [resources.buildLabel]: build },
      ...(owner && { ownerReferences: [owner] }),
    },
    spec: { ...identity, createdAt: rfc3339(createdAt) },
  }
}

/**
 * Without `writtenUpon`, the revision that the write replaces. Including it changes the object, so that every write gets a new
 * revision.
 */
export function serverStatus(server: Server): Readonly<Record<string, unknown>> {
  const { maintenance, ending, state, health, templateHash, graceSeconds } = server
  const status: Record<string, unknown> = { state, health, templateHash, graceSeconds }
  if (server.address !== undefined) status['publicIP'] = server.address
  if (server.node !== undefined) status['nodeName'] = server.node
  if (server.ports) status['ports'] = formatPortPairs(server.ports)
  for (const field of times) {
    const at = server[field]
    if (at !== undefined) status[field] = rfc3339(at)
  }
  Object.assign(status, sessionFields(server))
  if (server.startedSessions !== undefined) status['startedSessions'] = server.startedSessions
  if (maintenance) {
    status['nextScheduledMaintenance'] = rfc3339(maintenance.at)
    status['maintenanceSource'] = maintenance.source
  }
  if (server.data) Object.assign(status, server.data)
  if (ending) {
    status['message'] = ending.message
    status['ending'] = { ...ending, at: rfc3339(ending.at) }
  }
  return status
}

/** Whether the server's status differs from that of a new object. */
export function hasServerStatus(server: Server): boolean {
  const { state, health, templateHash: _hash, graceSeconds: _grace, ...others } = serverStatus(server)
  return state !== 'Pending' || health !== 'Unknown' || Object.keys(others).length > 0
}

function readMaintenance(status: Readonly<Record<string, unknown>>): Maintenance | undefined {
  const at = timeAt(status, 'nextScheduledMaintenance')
  const source = maintenanceSources.find((known) => known === status['maintenanceSource'])
  return at === undefined || source === undefined ? undefined : { at, source }
}

/** The data in the status, with what has been edited in the metadata since. */
export function readEditedData(object: KubeObject, group: string): EditedData {
  const status = objectAt(object, 'status')
  return withEdits(readData(status), appliedMetadata(status, group), editedMetadata(object, group), group)
}

/** The engine validates what is in the parts. */
function readData(status: Readonly<Record<string, unknown>>): ServerData | undefined {
  const parts = ['labels', 'annotations', 'counters', 'lists'].map((part) => [part, objectAt(status, part)] as const)
  return dataOrNone(Object.fromEntries(parts) as unknown as ServerData)
}

function readEnding(ending: unknown): Ending | undefined {
  if (!isObject(ending)) return undefined
  const reason = endingReasons.find((known) => known === ending['reason'])
  const at = timeAt(ending, 'at')
  if (reason === undefined || at === undefined) return undefined
  const exitCode = ending['exitCode']
  return {
    reason,
    message: stringAt(ending, 'message') ?? '',
    crash: ending['crash'] === true,
    at,
    ...(typeof exitCode === 'number' && { exitCode }),
  }
}

/**
 * The sessions in a status. A single one has fields of its own, beside those of its server; of several, those are in a list, and `sessionID`
 * is that of the first. Leaves out what somebody has made invalid, and a second session with the same number.
 */
function readSessions(status: Fields): readonly Session[] {
  const list = status['sessions']
  const sessions = new Map<number, Session>()
  for (const fields of Array.isArray(list) ? list.filter(isObject) : [status]) {
    const id = stringAt(fields, 'sessionID')
    const number = numberAt(fields, 'number') ?? numberAt(status, 'startedSessions') ?? 1
    const startedAt = timeAt(fields, 'startedAt') ?? timeAt(status, 'reachedActiveOn') ?? 0
    if (id !== undefined) sessions.set(number, readSession(id, number, startedAt, fields))
  }
  return [...sessions.values()]
}

function readSession(id: string, number: number, startedAt: number, fields: Fields): Session {
  const cookie = stringAt(fields, 'sessionCookie')
  const holds = readHolds(fields['heldSeats'])
  return {
    id,
    ...(cookie !== undefined && { cookie }),
    initialPlayers: stringsAt(fields, 'initialPlayers'),
    ...(holds.length > 0 && { holds }),
    number,
    startedAt,
    ...(fields['ending'] === true && { ending: true }),
    ...(fields['told'] === true && { told: true }),
  }
}

/** None if the server has no session. */
function sessionFields({ reachedActiveOn, sessions, startedSessions }: Server): object {
  const [only] = sessions
  if (!only) return {}
  const isPlain = only.number === startedSessions && only.startedAt === reachedActiveOn && !only.ending
  if (sessions.length === 1 && isPlain) return { sessionID: only.id, ...sessionFieldsOf(only) }
  const list = sessions.map((session) => ({
    sessionID: session.id,
    number: session.number,
    startedAt: rfc3339(session.startedAt),
    ...sessionFieldsOf(session),
    ...(session.ending && { ending: true }),
  }))
  return { sessionID: only.id, sessions: list }
}

/** Absent where the session lacks them. */
function sessionFieldsOf({ cookie, initialPlayers, holds, told }: Session): object {
  return {
    initialPlayers,
    ...(cookie !== undefined && { sessionCookie: cookie }),
    ...(holds && { heldSeats: holds.map(({ player, until }) => ({ player, until: rfc3339(until) })) }),
    ...(told && { told }),
  }
}

/** `lastNumber` of the server with this status. */
export function lastNumberIn(status: Fields): number {
  return numberAt(status, 'startedSessions') ?? 0
}

/** Leaves out what somebody has made invalid, and a second hold for the same player. */
function readHolds(value: unknown): readonly SeatHold[] {
  if (!Array.isArray(value)) return []
  const holds = new Map<string, SeatHold>()
  for (const hold of value.filter(isObject)) {
    const player = stringAt(hold, 'player')
    const until = timeAt(hold, 'until')
    if (player !== undefined && until !== undefined) holds.set(player, { player, until })
  }
  return [...holds.values()]
}

type Texts = Readonly<Record<string, string>>

/**
 * Labels, annotations and counters of a server that somebody has edited in the metadata of its object, as `kubectl label`, `annotate` and
 * `edit` do. The data of a server are in its status, which these commands cannot change. Each edit is applied to the data once, when
 * the object is read; the next write of the status says which metadata have been applied.
 */
export interface EditedMetadata {
  readonly labels: Texts
  readonly annotations: Texts
}

interface EditedData {
  readonly data: ServerData | undefined
  /** A sentence for each edit of a counter that is not possible. */
  readonly refused: readonly string[]
}

/** The labels and annotations that people may edit. Undefined if there are none. `group`: the fleet's, whose own labels they are not. */
export function editedMetadata(object: KubeObject, group: string): EditedMetadata | undefined {
  const { labels, annotations } = objectAt(object, 'metadata')
  return metadataOf({ labels, annotations }, group)
}

/** What has been applied already, according to the status. */
export function appliedMetadata(status: Fields, group: string): EditedMetadata | undefined {
  const applied = status['appliedMetadata']
  return isObject(applied) ? metadataOf(applied, group) : undefined
}

/** The data with what has been edited since it was last applied. */
export function withEdits(
  data: ServerData | undefined,
  applied: EditedMetadata | undefined,
  edited: EditedMetadata | undefined,
  group: string,
): EditedData {
  if (!applied && !edited) return { data, refused: [] }
  const merged = mergedData(dataIn(applied, group), dataIn(edited, group), data)
  const { counters, refused } = editedCounters(merged ?? noData, applied, edited, group)
  return { data: merged && counters ? { ...merged, counters } : merged, refused }
}

/** An annotation `counters.<group>/<name>` sets a counter: `3`, or `3/10` with its capacity. */
function editedCounters(
  { counters }: ServerData,
  applied: EditedMetadata | undefined,
  edited: EditedMetadata | undefined,
  group: string,
): { readonly counters?: ServerData['counters']; readonly refused: readonly string[] } {
  const prefix = counterPrefix(group)
  const next: Record<string, Counter> = {}
  const refused: string[] = []
  for (const [key, text] of Object.entries(edited?.annotations ?? {})) {
    if (!key.startsWith(prefix) || applied?.annotations[key] === text) continue
    const name = key.slice(prefix.length)
    const before = Object.hasOwn(counters, name) ? counters[name] : undefined
    const [, count, capacity] = /^(\d{1,15})(?:\/(\d{1,15}))?$/.exec(text) ?? []
    if (!before) refused.push(`annotation ${key}: the server has no counter ${name}`)
    else if (count === undefined) {
      refused.push(`annotation ${key} must be a count, or a count and a capacity such as 3/10, but is ${shown(text)}`)
    } else {
      const counter = { count: Number(count), capacity: Number(capacity ?? before.capacity) }
      if (counter.count <= counter.capacity) next[name] = counter
      else refused.push(`annotation ${key}: the count ${count} is more than the capacity, which is ${counter.capacity}`)
    }
  }
  return { ...(Object.keys(next).length > 0 && { counters: { ...counters, ...next } }), refused }
}

/** Labels and annotations as data. Those that set counters are no annotations of the server. */
function dataIn(metadata: EditedMetadata | undefined, group: string): ServerData {
  if (!metadata) return noData
  const prefix = counterPrefix(group)
  const annotations = Object.entries(metadata.annotations).filter(([key]) => !key.startsWith(prefix))
  return { ...noData, labels: metadata.labels, annotations: Object.fromEntries(annotations) }
}

function metadataOf(fields: Fields, group: string): EditedMetadata | undefined {
  const [labels, annotations] = [textsIn(fields['labels'], group), textsIn(fields['annotations'], group)]
  return labels || annotations ? { labels: labels ?? {}, annotations: annotations ?? {} } : undefined
}

function textsIn(value: unknown, group: string): Texts | undefined {
  if (!isObject(value)) return undefined
  const texts: Record<string, string> = {}
  let isEmpty = true
  for (const [key, text] of Object.entries(value)) {
    if (typeof text !== 'string' || isForeign(key, group)) continue
    texts[key] = text
    isEmpty = false
  }
  return isEmpty ? undefined : texts
}

/** What the fleet itself, Kubernetes and kubectl keep in metadata. */
function isForeign(key: string, group: string): boolean {
  const domain = key.slice(0, Math.max(0, key.indexOf('/')))
  return domain === group || /(?:^|\.)(?:kubernetes|k8s)\.io$/.test(domain)
}

function counterPrefix(group: string): string {
  return `counters.${group}/`
}

/** Returns undefined if the object is not a valid detail. */
export function readDetail(object: KubeObject): Detail | undefined {
  const { name, namespace } = object.metadata
  const spec = objectAt(object, 'spec')
  const build = stringAt(spec, 'build')
  if (namespace === undefined || build === undefined) return undefined
  return { namespace, name, build, players: stringsAt(spec, 'connectedPlayers') }
}

export function newDetailObject(detail: Detail, resources: FleetResources, owner: OwnerReference | undefined): object {
  const { name, namespace, build } = detail
  return {
    ...typeMetaOf(resources.details),
    metadata: {
      name,
      namespace,
      labels: { [resources.buildLabel]: build },
      ...(owner && { ownerReferences: [owner] }),
    },
    spec: detailSpec(detail),
  }
}

/**
 * `basedOn` is the revision that the write replaces. Including it changes the object, so that every write gets a new
 * revision.
 */
export function detailSpec({ build, players }: Detail, basedOn?: string): object {
  return { build, connectedPlayersCount: players.length, connectedPlayers: players, writtenUpon: basedOn }
}
