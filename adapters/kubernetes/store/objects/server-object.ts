/**
 * Converts between Server records and GameServer objects. The spec contains the identity, the status everything else. Pure.
 */
import {
  type Ending,
  endingReasons,
  type Health,
  type Maintenance,
  maintenanceSources,
  type Server,
  type ServerDraft,
  serverStates,
} from '../../../../src/rules/model/resources.js'
import { dataOrNone, type ServerData } from '../../../../src/rules/model/server-data.js'
import { defaultApiGroup } from '../../../../src/rules/model/wire.js'
import { isObject } from '../../../../src/rules/validation/problem.js'
import { formatPortPairs, parsePortPairs } from '../../../shared/port-pairs.js'
import { type Fields, fieldsAt, numberAt, rfc3339, textAt, timeAt } from '../../client/fields.js'
import { type KubeObject, type OwnerReference, typeMetaOf } from '../../client/kube-objects.js'
import { readSessions, sessionFields } from './session-fields.js'
import type { FleetResources } from './custom-resources.js'
import { appliedMetadata, type EditedData, editedMetadata, withEdits } from './edited-metadata.js'

/** Hides server tokens from users who may read servers but not secrets. */
export interface TokenEncryption {
  encrypt(token: string, uid: string): string
  /**
   * If the token was encrypted with another key, it is lost. `token` is then a random-looking one that no game knows, so that no
   * heartbeat matches it.
   */
  decrypt(encrypted: string, uid: string): { readonly token: string; readonly tokenLost?: true }
}

export interface TokenKey extends TokenEncryption {
  /** Whether it was encrypted for this uid, with the key that this host knows. */
  isGenuine(encrypted: string, uid: string): boolean
}

const healths: readonly Health[] = ['Healthy', 'Unhealthy', 'Unknown']

/**
 * Returns undefined if the object is not a valid server: it was created by hand, or for another version of the definitions.
 */
export function readServer(
  object: KubeObject,
  encryption: TokenEncryption,
  group = defaultApiGroup,
): Server | undefined {
  const { name, namespace } = object.metadata
  const spec = fieldsAt(object, 'spec')
  const status = fieldsAt(object, 'status')
  const [uid, encrypted, build, buildUid] = identityFields.map((field) => textAt(spec, field))
  // Both fields describe the same template, so read them from the same place.
  const template = textAt(status, 'templateHash') === undefined ? spec : status
  const templateHash = textAt(template, 'templateHash')
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
  const templateHash = textAt(status, 'templateHash')
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
  encryption: TokenEncryption,
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
export function hasServerStatus({ state, health, ...server }: Server): boolean {
  const { address, node, ports, startedSessions, maintenance, data, ending } = server
  const optional = [
    address,
    node,
    ports,
    startedSessions,
    maintenance,
    data,
    ending,
    ...times.map((field) => server[field]),
  ]
  return state !== 'Pending' || health !== 'Unknown' || optional.some((value) => value !== undefined)
}

function readMaintenance(status: Readonly<Record<string, unknown>>): Maintenance | undefined {
  const at = timeAt(status, 'nextScheduledMaintenance')
  const source = maintenanceSources.find((known) => known === status['maintenanceSource'])
  return at === undefined || source === undefined ? undefined : { at, source }
}

/** The data in the status, with what has been edited in the metadata since. */
export function readEditedData(object: KubeObject, group: string): EditedData {
  const status = fieldsAt(object, 'status')
  return withEdits(readData(status), appliedMetadata(status, group), editedMetadata(object, group), group)
}

/** The engine validates what is in the parts. */
function readData(status: Readonly<Record<string, unknown>>): ServerData | undefined {
  const parts = ['labels', 'annotations', 'counters', 'lists'].map((part) => [part, fieldsOf(status[part])] as const)
  return dataOrNone(Object.fromEntries(parts) as unknown as ServerData)
}

function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return isObject(value) ? value : {}
}

function readEnding(ending: unknown): Ending | undefined {
  if (!isObject(ending)) return undefined
  const reason = endingReasons.find((known) => known === ending['reason'])
  const at = timeAt(ending, 'at')
  if (reason === undefined || at === undefined) return undefined
  const exitCode = ending['exitCode']
  return {
    reason,
    message: textAt(ending, 'message') ?? '',
    crash: ending['crash'] === true,
    at,
    ...(typeof exitCode === 'number' && { exitCode }),
  }
}
