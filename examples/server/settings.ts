/**
 * What can be set in the environment: names, defaults, meanings, and how each is read. The help text and the page
 * docs/operations.md show this table. Pure.
 */
import { isIP, isIPv6 } from 'node:net'
import { resolve } from 'node:path'
import type { PortRange } from 'gamekeeper'
import type { BearerToken, Compat, Role, TlsOptions } from 'gamekeeper/http'
import { type LogLevel, logLevels } from './log.js'

/** Somebody asked for what cannot be had: its message names the variable or the flag, and is all that they need. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

export interface Setting {
  /** Absent: see the meaning. */
  readonly fallback?: string
  readonly meaning: string
}

export const settings = {
  BACKEND: {
    fallback: 'process',
    meaning:
      '`process`: servers are processes of this machine; `docker`: containers of DOCKER_HOST or of this machine; `kubernetes`: pods of the cluster of KUBECONFIG or of this pod; `memory`: pretended ones',
  },
  HOST: { fallback: '127.0.0.1', meaning: 'address on which the allocation and the management API listen' },
  ALLOCATION_PORT: { fallback: '5000', meaning: 'port of the allocation API; 0 takes a free one' },
  MANAGEMENT_PORT: { fallback: '5001', meaning: 'port of the management API; 0 takes a free one' },
  AGENT_PORT: {
    fallback: '56001',
    meaning: 'port for the heartbeats of game servers; 0 takes the one that DATA_DIR remembers, or a free one',
  },
  AGENT_HOST: {
    meaning:
      'address on which the agent listens for those heartbeats: 127.0.0.1, for containers that of their bridge, for pods that of this node',
  },
  AGENT_ADDRESS: { meaning: 'host or host:port that game servers are told instead, when that is another one' },
  DATA_DIR: { fallback: '.gamekeeper', meaning: 'where builds, servers, sessions and logs are kept; one server each' },
  PORT_RANGE: { fallback: '10000-12000', meaning: 'public ports of the game servers' },
  PUBLIC_ADDRESS: {
    meaning:
      'address that players are told to connect to: 127.0.0.1, or the machine that DOCKER_HOST names, or the node',
  },
  SYSTEM_NAMESPACE: {
    meaning:
      'of a cluster, where the lease and the key of the fleet are; the first of NAMESPACES in the alphabet, or `default`. It must stay the same: name it before NAMESPACES changes',
  },
  NAMESPACES: { meaning: 'of a cluster, those that the fleet is in, with commas in between: all of them' },
  POD_NAME: {
    meaning:
      'of the pod that this runs in: it has a label while this server leads, which the Services of `examples/kubernetes` select',
  },
  SAMPLE: { fallback: 'on', meaning: '`on` gives an empty fleet a sample build, and says what to try; `off`' },
  ALLOCATE_TOKENS: {
    meaning: 'bearer tokens that may allocate, with commas between them; at least 16 characters each',
  },
  READ_TOKENS: { meaning: 'bearer tokens that may look at builds, servers and events' },
  MANAGE_TOKENS: { meaning: 'bearer tokens that may look at and change them' },
  TLS_CERT: {
    meaning: 'PEM file of the certificate of the two APIs, which speak HTTPS then; read again when it changes',
  },
  TLS_KEY: { meaning: 'PEM file of its private key' },
  TLS_CLIENT_CA: {
    meaning: 'PEM file of authorities: clients of the two APIs must show a certificate that one of them signed',
  },
  INSECURE: {
    fallback: '0',
    meaning: '`1` lets HOST be another than loopback though nobody is asked who is calling',
  },
  WEBHOOK_URL: { meaning: 'address to which every event is sent, signed with WEBHOOK_SECRET' },
  WEBHOOK_SECRET: { meaning: 'at least 16 characters that the receiver knows as well' },
  COMPAT: { meaning: '`thundernetes`: the management API answers in the shapes of that project' },
  API_GROUP: { fallback: 'mps.gamekeeper.com', meaning: 'group of the resources, in `apiVersion` and in a cluster' },
  ALLOWED_HOSTS: {
    meaning:
      'names under which the two APIs may be asked on loopback, besides localhost and addresses, while nobody is asked who is calling; with commas in between',
  },
  ALLOWED_ORIGINS: {
    meaning: 'whose pages may call the two APIs from a browser, as `https://console.example`, with commas in between',
  },
  LOG_LEVEL: { fallback: 'info', meaning: '`debug`, `info`, `warn`, `error` or `silent`' },
} as const satisfies Readonly<Record<string, Setting>>

export type SettingName = keyof typeof settings
type Defaulted = { [N in SettingName]: (typeof settings)[N] extends { fallback: string } ? N : never }[SettingName]

export const backends = ['process', 'docker', 'kubernetes', 'memory'] as const

const compats: readonly Compat[] = ['thundernetes']

export interface Config {
  readonly backend: (typeof backends)[number]
  readonly host: string
  readonly allocationPort: number
  readonly managementPort: number
  readonly agentPort: number
  readonly agentHost: string | undefined
  readonly agentAddress: string | undefined
  /** Absolute. */
  readonly dataDir: string
  readonly portRange: PortRange
  readonly publicAddress: string | undefined
  readonly namespaces: readonly string[] | undefined
  readonly systemNamespace: string | undefined
  readonly podName: string | undefined
  readonly sample: boolean
  /** Empty: nobody is asked for one. */
  readonly tokens: readonly BearerToken[]
  readonly tls: TlsOptions | undefined
  readonly webhook: { readonly url: string; readonly secret: string } | undefined
  readonly compat: Compat | undefined
  readonly apiGroup: string
  readonly allowedHosts: readonly string[]
  readonly allowedOrigins: readonly string[]
  readonly logLevel: LogLevel
}

/** Throws UsageError for the first variable that holds what it cannot mean. */
export function readConfig(env: Readonly<Record<string, string | undefined>>, cwd: string): Config {
  const given = (name: SettingName) => {
    const value = env[name]
    if (value?.trim() === '') throw new UsageError(`${name} is set, but there is nothing in it`)
    return value
  }
  const text = (name: Defaulted) => given(name) ?? settings[name].fallback
  const port = (name: Defaulted) => readPort(name, text(name))
  const agentAddress = given('AGENT_ADDRESS')
  const agentHost = given('AGENT_HOST')
  const publicAddress = given('PUBLIC_ADDRESS')
  const tokens = readTokens(given)
  const tls = readTls(given)
  const host = readHost('HOST', text('HOST'))
  const insecure = oneOf('INSECURE', text('INSECURE'), ['0', '1']) === '1'
  const isAnybody = tokens.length === 0 && tls?.ca === undefined
  if (!insecure && isAnybody && !isLoopback(host)) throw openToAll(`HOST=${host}`, 'who reaches this machine')
  const allowedOrigins = readOrigins(given)
  if (!insecure && isAnybody && allowedOrigins.includes('*')) {
    throw openToAll('ALLOWED_ORIGINS=*', 'whose page is open in a browser here')
  }
  const namespaces = given('NAMESPACES')
  const compat = given('COMPAT')
  return {
    backend: oneOf('BACKEND', text('BACKEND'), backends),
    host,
    allocationPort: port('ALLOCATION_PORT'),
    managementPort: port('MANAGEMENT_PORT'),
    agentPort: port('AGENT_PORT'),
    agentHost: agentHost === undefined ? undefined : readHost('AGENT_HOST', agentHost),
    agentAddress: agentAddress === undefined ? undefined : readHostAndPort('AGENT_ADDRESS', agentAddress),
    dataDir: resolve(cwd, text('DATA_DIR')),
    portRange: readRange('PORT_RANGE', text('PORT_RANGE')),
    publicAddress: publicAddress === undefined ? undefined : readHost('PUBLIC_ADDRESS', publicAddress),
    namespaces: namespaces === undefined ? undefined : readNamespaces('NAMESPACES', namespaces),
    systemNamespace: given('SYSTEM_NAMESPACE'),
    podName: given('POD_NAME'),
    sample: oneOf('SAMPLE', text('SAMPLE'), ['on', 'off']) === 'on',
    tokens,
    tls,
    webhook: readWebhook(given),
    compat: compat === undefined ? undefined : oneOf('COMPAT', compat, compats),
    apiGroup: readGroup('API_GROUP', text('API_GROUP')),
    allowedHosts: (given('ALLOWED_HOSTS')?.split(',') ?? []).map((name) => readHost('ALLOWED_HOSTS', name.trim())),
    allowedOrigins,
    logLevel: oneOf('LOG_LEVEL', text('LOG_LEVEL'), logLevels),
  }
}

type Given = (name: SettingName) => string | undefined

const tokenSettings = [
  ['ALLOCATE_TOKENS', 'allocate'],
  ['READ_TOKENS', 'read'],
  ['MANAGE_TOKENS', 'manage'],
] as const

/** One token may stand in several variables, and has the roles of all of them. Never shows a token. */
function readTokens(given: Given): readonly BearerToken[] {
  const rolesOf = new Map<string, Set<Role>>()
  for (const [name, role] of tokenSettings) {
    for (const token of given(name)?.split(',') ?? []) {
      const trimmed = token.trim()
      if (!/^[\w.~+/=-]{16,}$/.test(trimmed)) {
        throw new UsageError(
          `${name} must hold tokens of at least 16 letters, digits or -._~+/=, with commas between them, but one is not; openssl rand -hex 32 makes a good one`,
        )
      }
      rolesOf.set(trimmed, (rolesOf.get(trimmed) ?? new Set()).add(role))
    }
  }
  return [...rolesOf].map(([token, roles]) => ({ token, roles: [...roles] }))
}

function readTls(given: Given): TlsOptions | undefined {
  const [cert, key, ca] = [given('TLS_CERT'), given('TLS_KEY'), given('TLS_CLIENT_CA')]
  if (cert === undefined && key === undefined && ca === undefined) return undefined
  if (cert === undefined || key === undefined) {
    throw new UsageError('TLS_CERT and TLS_KEY go together, and TLS_CLIENT_CA needs both')
  }
  return { cert, key, ...(ca !== undefined && { ca }) }
}

function readWebhook(given: Given): Config['webhook'] {
  const [url, secret] = [given('WEBHOOK_URL'), given('WEBHOOK_SECRET')]
  if (url === undefined && secret === undefined) return undefined
  if (url === undefined || secret === undefined) throw new UsageError('WEBHOOK_URL and WEBHOOK_SECRET go together')
  if (!/^https?:\/\//.test(url) || !URL.canParse(url))
    throw wrong('WEBHOOK_URL', 'must be an address like https://…', url)
  if (secret.length < 16) throw new UsageError('WEBHOOK_SECRET must have at least 16 characters')
  return { url, secret }
}

/** Whom only this machine can reach. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127\.\d+\.\d+\.\d+$/.test(host)
}

function openToAll(setting: string, whom: string): UsageError {
  return new UsageError(
    `${setting} would let everybody ${whom} hand out game servers and end matches: set ALLOCATE_TOKENS and MANAGE_TOKENS, or TLS_CERT, TLS_KEY and TLS_CLIENT_CA for client certificates, or INSECURE=1 where something in front asks who is calling`,
  )
}

function oneOf<T extends string>(name: SettingName, value: string, known: readonly T[]): T {
  const found = known.find((one) => one === value)
  if (found === undefined) throw wrong(name, `must be ${listed(known)}`, value)
  return found
}

function readPort(name: SettingName, value: string): number {
  const port = /^\d{1,5}$/.test(value) ? Number(value) : NaN
  if (!(port <= 65_535)) throw wrong(name, 'must be a port from 0 to 65535', value)
  return port
}

function readRange(name: SettingName, value: string): PortRange {
  const [, first, last] = (/^(\d{1,5})-(\d{1,5})$/.exec(value) ?? []).map(Number)
  if (first === undefined || last === undefined || first < 1 || last > 65_535 || first > last) {
    throw wrong(name, 'must be two ports from 1 to 65535, lower first, like 10000-12000', value)
  }
  return { first, last }
}

/** A name or an address, without scheme, port or path. */
function readHost(name: SettingName, value: string): string {
  if (isIP(value) === 0 && !/^[\w.-]+$/.test(value)) throw wrong(name, 'must be an address or a host name', value)
  return value
}

function readNamespaces(name: SettingName, value: string): readonly string[] {
  const namespaces = value.split(',').map((one) => one.trim())
  if (!namespaces.every((one) => /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/.test(one))) {
    throw wrong(name, 'must be names of namespaces with commas in between', value)
  }
  return namespaces
}

function readOrigins(given: Given): readonly string[] {
  const origins = given('ALLOWED_ORIGINS')?.split(',') ?? []
  return origins.map((one) => {
    const origin = one.trim()
    if (origin === '*' || (URL.canParse(origin) && new URL(origin).origin === origin)) return origin
    throw wrong('ALLOWED_ORIGINS', 'must be origins like https://console.example, without a path', origin)
  })
}

function readGroup(name: SettingName, value: string): string {
  if (value.length > 200 || !/^[a-z0-9]([-.a-z0-9]*[a-z0-9])?\.[a-z]+$/.test(value)) {
    throw wrong(name, 'must be a domain such as mps.gamekeeper.com', value)
  }
  return value
}

function readHostAndPort(name: SettingName, value: string): string {
  if (isIPv6(value))
    throw wrong(name, 'must have an IPv6 address in brackets, like [fd00::4] or [fd00::4]:56001', value)
  // What is no address with its port, but is one without, can only be meant so: $(HOST):$(PORT) of a Service becomes that.
  const [, address, digits] = /^(.+:.*):(\d{1,5})$/.exec(value) ?? []
  if (address !== undefined && isIPv6(address)) return readHostAndPort(name, `[${address}]:${digits}`)
  const match = /^([\w.-]+|\[[\da-f:.]+\])(?::(\d{1,5}))?$/i.exec(value)
  if (!match || !(Number(match[2] ?? 1) >= 1 && Number(match[2] ?? 1) <= 65_535)) {
    throw wrong(name, 'must be a host or host:port, without http://', value)
  }
  return value
}

function wrong(name: SettingName, must: string, value: string): UsageError {
  return new UsageError(`${name} ${must}, but is ${JSON.stringify(value)}`)
}

function listed(words: readonly string[]): string {
  return words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} or ${words.at(-1)}`
}
