/**
 * Reads the game server's configuration from the JSON file named by `GSDK_CONFIG_FILE`, or otherwise from environment
 * variables that some other SDKs also use as a fallback. `rules/game/sdk-config.ts`, or another GSDK agent, writes the file.
 */
import { readFile } from 'node:fs/promises'
import { FleetError, messageOf } from '../contracts/errors.js'
import { readInstanceNumber } from '../rules/game/sdk-config.js'
import { findPort } from '../rules/model/ports.js'
import { isObject, shown } from '../rules/validation/problem.js'

export interface GamePort {
  /** The port that the game listens on. */
  readonly listening: number
  /** The port that players connect to. */
  readonly public: number
}

export interface GameServerConfig {
  /** The server's name: the part of its `sessionHostId` that is not secret. */
  readonly serverId: string
  /** The address that players connect to. Undefined if the fleet does not know it. */
  readonly publicAddress: string | undefined
  /** Public DNS name of the server's machine. Undefined if the fleet does not know it. */
  readonly fullyQualifiedDomainName: string | undefined
  /** From 0; unique among the fleet's servers on the same machine. */
  readonly serverInstanceNumber: number
  /** PlayFab title of the game. Undefined if the fleet does not know it. */
  readonly titleId: string | undefined
  /** Undefined if the fleet does not know it. */
  readonly region: string | undefined
  /** Ports by their name in the build's template. */
  readonly ports: Readonly<Record<string, GamePort>>
  /**
   * Returns the port with this name, or with this number in the build's template. If there is only one port, the argument may be
   * omitted. Throws `invalid`, naming the ports that there are. Needs no `this`.
   */
  port(this: void, nameOrNumber?: string | number): GamePort
  /** The build's `spec.buildMetadata`. */
  readonly buildMetadata: Readonly<Record<string, string>>
  readonly folders: {
    readonly logs: string | undefined
    /** For crash dumps. */
    readonly dumps: string | undefined
    readonly certificates: string | undefined
    readonly sharedContent: string | undefined
  }
  /** The content of the file. Includes the secret that identifies this server to the agent: keep it out of logs. */
  readonly raw: Fields
}

/** The agent's address, and the secret id used in the path of requests. */
export interface AgentAddress {
  readonly origin: URL
  readonly sessionHostId: string
}

interface ReadConfig {
  readonly config: GameServerConfig
  readonly agent: AgentAddress
  /** A warning for the operator if the configuration came from the fallback variables. */
  readonly notice?: string
}

export type Environment = Readonly<Record<string, string | undefined>>

type Fields = Readonly<Record<string, unknown>>

const defaultAgentPort = '56001'

/** Throws `invalid`, naming the variable and the file. */
export async function readConfig(env: Environment): Promise<ReadConfig> {
  const path = env['GSDK_CONFIG_FILE']
  if (path === undefined || path === '') {
    const raw = fallbackOf(env)
    if (raw !== undefined) return configOf(raw, env, 'the environment')
    throw new FleetError(
      'invalid',
      'no configuration: GSDK_CONFIG_FILE is not set, and neither are HEARTBEAT_ENDPOINT and SESSION_HOST_ID. ' +
        'Was this process started by a fleet?',
    )
  }
  const source = `the file ${path} named by GSDK_CONFIG_FILE`
  const text = await readText(path, source)
  if (typeof text === 'string') return configOf(parse(text, source), env, source)
  const raw = fallbackOf(env)
  if (raw === undefined) throw text
  const notice = `${text.message}; using HEARTBEAT_ENDPOINT and SESSION_HOST_ID instead`
  return { ...configOf(raw, env, 'the environment'), notice }
}

async function readText(path: string, source: string): Promise<string | FleetError> {
  try {
    return await readFile(path, 'utf8')
  } catch (cause) {
    return new FleetError('invalid', `${source} cannot be read: ${messageOf(cause)}`, { cause })
  }
}

function parse(text: string, source: string): Fields {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (cause) {
    throw new FleetError('invalid', `${source} is not JSON: ${messageOf(cause)}`, { cause })
  }
  if (isObject(value)) return value
  throw new FleetError('invalid', `${source} must hold a JSON object, but holds ${shown(value)}`)
}

/** Builds the file's fields from the fallback variables. */
function fallbackOf(env: Environment): Fields | undefined {
  const { HEARTBEAT_ENDPOINT: heartbeatEndpoint, SESSION_HOST_ID: sessionHostId } = env
  if (!heartbeatEndpoint || !sessionHostId) return undefined
  return {
    heartbeatEndpoint,
    sessionHostId,
    logFolder: env['GSDK_LOG_FOLDER'],
    sharedContentFolder: env['SHARED_CONTENT_FOLDER'],
  }
}

function configOf(raw: Fields, env: Environment, source: string): ReadConfig {
  const sessionHostId = textAt(raw, 'sessionHostId')
  if (sessionHostId === undefined) throw fieldError(raw, 'sessionHostId', 'must be a non-empty string', source)
  const origin = originOf(textAt(raw, 'heartbeatEndpoint'))
  if (origin === undefined) throw fieldError(raw, 'heartbeatEndpoint', 'must be host:port', source)
  const ports = portsOf(raw)
  const fields = {
    serverId: sessionHostId.split('.', 1)[0] ?? sessionHostId,
    publicAddress: addressOf(raw) ?? env['PUBLIC_IPV4_ADDRESS'],
    fullyQualifiedDomainName: domainNameOf(raw) ?? textAt(env, 'PF_FQDN'),
    serverInstanceNumber:
      readInstanceNumber(raw['serverInstanceNumber']) ?? readInstanceNumber(env['PF_SERVER_INSTANCE_NUMBER']) ?? 0,
    titleId: textAt(env, 'PF_TITLE_ID'),
    region: textAt(env, 'PF_REGION'),
    ports,
    buildMetadata: stringsOf(raw['buildMetadata']),
    folders: Object.freeze({
      logs: textAt(raw, 'logFolder') ?? env['PF_SERVER_LOG_DIRECTORY'],
      dumps: textAt(env, 'PF_SERVER_DUMP_DIRECTORY'),
      certificates: textAt(raw, 'certificateFolder') ?? textAt(env, 'CERTIFICATE_FOLDER'),
      sharedContent: textAt(raw, 'sharedContentFolder'),
    }),
    raw,
  }
  // Not enumerable, so that a configuration can be cloned and logged.
  const config: GameServerConfig = Object.defineProperty(
    Object.assign(fields, { port: portFinder(ports, env) }),
    'port',
    {
      enumerable: false,
    },
  )
  Object.freeze(config)
  return { config, agent: { origin, sessionHostId } }
}

function fieldError(raw: Fields, field: string, rule: string, source: string): FleetError {
  return new FleetError('invalid', `${field} in ${source} ${rule}, but is ${shown(raw[field])}`)
}

function originOf(endpoint: string | undefined): URL | undefined {
  if (endpoint === undefined || /[/?#@\s]/.test(endpoint) || !URL.canParse(`http://${endpoint}`)) return undefined
  const origin = new URL(`http://${endpoint}`)
  // URL drops port 80, the default for http. Without a port, the agent's own default port applies.
  if (origin.port === '' && !endpoint.endsWith(':80')) origin.port = defaultAgentPort
  return origin
}

/**
 * Depending on the agent, the address is at the top level, in the connection info, or in both, in one of three spellings.
 */
function addressOf(raw: Fields): string | undefined {
  for (const fields of [fieldsAt(raw, 'gameServerConnectionInfo'), raw]) {
    const address =
      textAt(fields, 'publicIpV4Address') ?? textAt(fields, 'publicIpV4Adress') ?? textAt(fields, 'IpV4Address')
    if (address !== undefined) return address
  }
  return undefined
}

/** Agents that know no name write this text. */
function domainNameOf(raw: Fields): string | undefined {
  const name = textAt(raw, 'fullyQualifiedDomainName')
  return name === 'NOT_APPLICABLE' ? undefined : name
}

function portsOf(raw: Fields): Readonly<Record<string, GamePort>> {
  const ports = new Map<string, GamePort>()
  for (const [name, value] of Object.entries(fieldsAt(raw, 'gamePorts'))) {
    const listening = portNumberOf(value)
    if (listening !== undefined) ports.set(name, { listening, public: listening })
  }
  const entries = fieldsAt(raw, 'gameServerConnectionInfo')['gamePortsConfiguration']
  for (const entry of Array.isArray(entries) ? entries.filter(isObject) : []) {
    const name = textAt(entry, 'name')
    if (name === undefined) continue
    const listening = portNumberOf(entry['serverListeningPort']) ?? ports.get(name)?.listening
    if (listening === undefined) continue
    ports.set(name, { listening, public: portNumberOf(entry['clientConnectionPort']) ?? listening })
  }
  return Object.freeze(Object.fromEntries(ports))
}

function portNumberOf(value: unknown): number | undefined {
  const port = typeof value === 'string' ? Number(value) : value
  return typeof port === 'number' && Number.isInteger(port) && port >= 1 && port <= 65_535 ? port : undefined
}

function stringsOf(value: unknown): Readonly<Record<string, string>> {
  const entries = isObject(value) ? Object.entries(value) : []
  return Object.freeze(Object.fromEntries(entries.map(([name, text]) => [name, String(text)])))
}

function fieldsAt(fields: Fields, name: string): Fields {
  const value = fields[name]
  return isObject(value) ? value : {}
}

/** An empty string counts as absent. */
function textAt(fields: Fields, name: string): string | undefined {
  const value = fields[name]
  return typeof value === 'string' && value !== '' ? value : undefined
}

type FindPort = (nameOrNumber?: string | number) => GamePort

/** `env` tells the number in the template where the game listens on another one: `PORT_7777=10003`. */
function portFinder(
  ports: Readonly<Record<string, GamePort>>,
  env: Readonly<Record<string, string | undefined>>,
): FindPort {
  const containers = new Map<number, number>()
  for (const [name, value] of Object.entries(env)) {
    const [, container] = /^PORT_(\d+)$/.exec(name) ?? []
    if (container !== undefined) containers.set(Number(value), Number(container))
  }
  const known = Object.entries(ports).map(([name, port]) => ({
    name,
    container: containers.get(port.listening) ?? port.listening,
    port,
  }))
  return (nameOrNumber) => {
    const found = findPort(known, nameOrNumber)
    if (!found.ok) throw new FleetError('invalid', `config.port: ${found.problem.field} ${found.problem.message}`)
    return found.value.port
  }
}
