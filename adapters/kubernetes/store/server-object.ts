/** A Server record as a GameServer object, and back: who it is in its spec, what becomes of it in its status. Pure. */
import { isObject } from '../../../src/rules/validation/problem.js'
import {
  type Ending,
  endingReasons,
  type Health,
  type PortPair,
  type Server,
  type ServerDraft,
  serverStates,
} from '../../../src/rules/model/resources.js'
import {
  fieldsAt,
  type FleetResources,
  headOf,
  numberAt,
  rfc3339,
  textAt,
  textsAt,
  timeAt,
} from './custom-resources.js'
import type { KubeObject, OwnerReference } from '../client/kube-objects.js'

/** Keeps tokens from those who may read servers but not secrets. */
export interface TokenEncryption {
  seal(token: string, uid: string): string
  /** One that nobody was told when it was sealed with another key: nobody can speak for that server any more. */
  unseal(sealed: string, uid: string): string
}

const healths: readonly Health[] = ['Healthy', 'Unhealthy', 'Unknown']

/** Undefined when it is none that could be read: made by hand, or of another version of the definitions. */
export function readServer(object: KubeObject, sealing: TokenEncryption): Server | undefined {
  const { name, namespace } = object.metadata
  const spec = fieldsAt(object, 'spec')
  const status = fieldsAt(object, 'status')
  const [uid, sealed, build, buildUid] = identityFields.map((field) => textAt(spec, field))
  // Both fields from one place: they are of one template.
  const runs = textAt(status, 'templateHash') === undefined ? spec : status
  const templateHash = textAt(runs, 'templateHash')
  const graceSeconds = numberAt(runs, 'graceSeconds')
  const createdAt = timeAt(spec, 'createdAt')
  if (namespace === undefined || uid === undefined || sealed === undefined || build === undefined) return undefined
  if (buildUid === undefined || templateHash === undefined || createdAt === undefined) return undefined
  const server: ServerDraft = {
    namespace,
    name,
    uid,
    token: sealing.unseal(sealed, uid),
    build,
    buildUid,
    templateHash,
    ...(graceSeconds !== undefined && { graceSeconds }),
    createdAt,
    state: serverStates.find((state) => state === status['state']) ?? 'Pending',
    health: healths.find((health) => health === status['health']) ?? 'Unknown',
  }
  const { publicIP, nodeName, ports, sessionID } = status
  if (typeof publicIP === 'string') server.address = publicIP
  if (typeof nodeName === 'string') server.node = nodeName
  if (typeof ports === 'string') server.ports = readPorts(ports)
  for (const field of times) {
    const at = timeAt(status, field)
    if (at !== undefined) server[field] = at
  }
  if (typeof sessionID === 'string') {
    const cookie = textAt(status, 'sessionCookie')
    const initialPlayers = textsAt(status, 'initialPlayers')
    server.session = { id: sessionID, ...(cookie !== undefined && { cookie }), initialPlayers }
  }
  const ending = readEnding(status['ending'])
  if (ending) server.ending = ending
  return server
}

const identityFields = ['uid', 'token', 'build', 'buildUid'] as const
const times = ['reachedInitializingOn', 'reachedStandingByOn', 'reachedActiveOn'] as const

export function newServerObject(
  server: Server,
  resources: FleetResources,
  sealing: TokenEncryption,
  owner: OwnerReference | undefined,
): object {
  const { name, namespace, uid, token, build, buildUid, templateHash, graceSeconds, createdAt } = server
  const made = { uid, token: sealing.seal(token, uid), build, buildUid, templateHash, graceSeconds }
  return {
    ...headOf(resources.servers),
    metadata: {
      name,
      namespace,
      labels: { [resources.buildLabel]: build },
      ...(owner && { ownerReferences: [owner] }),
    },
    spec: { ...made, createdAt: rfc3339(createdAt) },
  }
}

export function serverStatus(server: Server, upon: string): object {
  const { session, ending, state, health, templateHash, graceSeconds } = server
  const status: Record<string, unknown> = { state, health, templateHash, graceSeconds, writtenUpon: upon }
  if (server.address !== undefined) status['publicIP'] = server.address
  if (server.node !== undefined) status['nodeName'] = server.node
  if (server.ports) status['ports'] = server.ports.map((pair) => `${pair.container}:${pair.public}`).join(',')
  for (const field of times) {
    const at = server[field]
    if (at !== undefined) status[field] = rfc3339(at)
  }
  if (session) {
    status['sessionID'] = session.id
    status['initialPlayers'] = session.initialPlayers
    if (session.cookie !== undefined) status['sessionCookie'] = session.cookie
  }
  if (ending) status['ending'] = { ...ending, at: rfc3339(ending.at) }
  return status
}

/** Its status says more than the one that every new object has. */
export function hasServerStatus({ state, health, ...server }: Server): boolean {
  const { address, node, ports, session, ending } = server
  const given = [address, node, ports, session, ending, ...times.map((field) => server[field])]
  return state !== 'Pending' || health !== 'Unknown' || given.some((value) => value !== undefined)
}

function readPorts(text: string): readonly PortPair[] {
  if (text === '') return []
  return text.split(',').map((pair) => {
    const [container = '', outside = ''] = pair.split(':')
    return { container: Number(container), public: Number(outside) }
  })
}

function readEnding(ending: unknown): Ending | undefined {
  if (!isObject(ending)) return undefined
  const reason = endingReasons.find((known) => known === ending['reason'])
  const at = timeAt(ending, 'at')
  if (reason === undefined || at === undefined) return undefined
  return { reason, message: textAt(ending, 'message') ?? '', crash: ending['crash'] === true, at }
}
