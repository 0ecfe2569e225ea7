/** Reads the configuration from the environment variables in variables.ts. Pure. */
import { isIP, isIPv6 } from 'node:net'
import { resolve } from 'node:path'
import { UsageError } from '../config/usage-error.js'
import { type SettingName, settings } from '../config/variables.js'
import type { BearerToken, Compat, Role, SessionIDs, TlsOptions } from '../http/index.js'
import type { BudgetOptions, PortRange } from '../index.js'
import { isLoopback } from '../platform/http-server.js'
import { quantityOf } from '../rules/model/quantity.js'
import { type LogLevel, logLevels } from './log.js'

type Defaulted = { [N in SettingName]: (typeof settings)[N] extends { fallback: string } ? N : never }[SettingName]

const backends = settings.BACKEND.type
const isolations = settings.ISOLATION.type

export interface Config {
  readonly backend: (typeof backends)[number]
  readonly isolation: (typeof isolations)[number]
  readonly readOnlyPaths: readonly string[]
  readonly runAs: { readonly user: string | number; readonly group?: string | number } | undefined
  readonly host: string
  readonly insecure: boolean
  readonly allocationPort: number
  readonly managementPort: number
  /** At which callers reach the API, without a slash at the end. Undefined: at this server's own address. */
  readonly allocationUrl: string | undefined
  readonly managementUrl: string | undefined
  /** With COMPAT=agones. */
  readonly grpcPort: number | undefined
  readonly health: { readonly host: string; readonly port: number } | undefined
  /** `address`: with the port. */
  readonly forwarding: { readonly address: string; readonly port: number } | undefined
  readonly agentPort: number
  readonly agentHost: string | undefined
  readonly agentAddress: string | undefined
  /** An absolute path. */
  readonly dataDir: string
  readonly portRange: PortRange
  readonly publicAddress: string | undefined
  readonly titleId: string | undefined
  readonly region: string | undefined
  /** May contain `{node}`. */
  readonly fullyQualifiedDomainName: string | undefined
  readonly namespaces: readonly string[] | undefined
  readonly systemNamespace: string | undefined
  readonly podName: string | undefined
  readonly leaseMs: number
  readonly cordonNoticeMs: number | undefined
  readonly prePullImages: boolean
  readonly sample: boolean
  /** Requests per second of one client. Undefined: no limit. */
  readonly rateLimit: number | undefined
  readonly budget: BudgetOptions | undefined
  readonly audit: boolean
  readonly acceptStoreLoss: boolean
  /** If empty, callers are not authenticated by token. */
  readonly tokens: readonly BearerToken[]
  readonly tls: TlsOptions | undefined
  readonly webhook: { readonly url: string; readonly secret: string } | undefined
  readonly compat: Compat | undefined
  readonly sessionIDs: SessionIDs
  readonly apiGroup: string
  readonly allowedHosts: readonly string[]
  readonly allowedOrigins: readonly string[]
  readonly scalingWebhooks: readonly string[]
  readonly logLevel: LogLevel
}

/** Throws UsageError for the first variable with an invalid value. */
export function readServerConfig(env: Readonly<Record<string, string | undefined>>, cwd: string): Config {
  const variable = (name: SettingName) => {
    const value = env[name]
    if (value?.trim() === '') throw new UsageError(`${name} is set but empty`)
    return value
  }
  const text = (name: Defaulted) => variable(name) ?? settings[name].fallback
  const port = (name: Defaulted) => readPort(name, text(name))
  const agentAddress = variable('AGENT_ADDRESS')
  const agentHost = variable('AGENT_HOST')
  const publicAddress = variable('PUBLIC_ADDRESS')
  const tokens = readTokens(variable)
  const tls = readTls(variable)
  const host = readHost('HOST', text('HOST'))
  const insecure = oneOf('INSECURE', text('INSECURE'), ['0', '1']) === '1'
  const isUnauthenticated = tokens.length === 0 && tls?.ca === undefined
  if (!insecure && isUnauthenticated && !isLoopback(host))
    throw unauthenticated(`HOST=${host}`, 'anyone who can reach this machine')
  const allowedOrigins = readOrigins('ALLOWED_ORIGINS', variable('ALLOWED_ORIGINS'), '*')
  if (!insecure && isUnauthenticated && allowedOrigins.includes('*')) {
    throw unauthenticated('ALLOWED_ORIGINS=*', 'any web page open in a browser on this machine')
  }
  const namespaces = variable('NAMESPACES')
  const compat = variable('COMPAT')
  return {
    backend: oneOf('BACKEND', text('BACKEND'), backends),
    ...readIsolation(text('BACKEND'), text('ISOLATION'), variable),
    host,
    insecure,
    allocationPort: port('ALLOCATION_PORT'),
    managementPort: port('MANAGEMENT_PORT'),
    allocationUrl: readUrl('ALLOCATION_URL', variable('ALLOCATION_URL')),
    managementUrl: readUrl('MANAGEMENT_URL', variable('MANAGEMENT_URL')),
    grpcPort: readGrpcPort(compat, variable),
    health: readHealth(host, variable),
    forwarding: readForwarding(text('BACKEND'), port('FORWARDING_PORT'), variable),
    agentPort: port('AGENT_PORT'),
    agentHost: agentHost === undefined ? undefined : readHost('AGENT_HOST', agentHost),
    agentAddress: agentAddress === undefined ? undefined : readHostAndPort('AGENT_ADDRESS', agentAddress),
    dataDir: resolve(cwd, text('DATA_DIR')),
    portRange: readRange('PORT_RANGE', text('PORT_RANGE')),
    publicAddress: publicAddress === undefined ? undefined : readHost('PUBLIC_ADDRESS', publicAddress),
    titleId: variable('TITLE_ID'),
    region: variable('REGION'),
    fullyQualifiedDomainName: readDomainName(variable),
    namespaces: namespaces === undefined ? undefined : readNamespaces('NAMESPACES', namespaces),
    systemNamespace: variable('SYSTEM_NAMESPACE'),
    podName: variable('POD_NAME'),
    leaseMs: readLeaseMs('LEASE_MS', text('LEASE_MS')),
    cordonNoticeMs: readSeconds('CORDON_NOTICE_SECONDS', variable('CORDON_NOTICE_SECONDS')),
    prePullImages: oneOf('PRE_PULL_IMAGES', text('PRE_PULL_IMAGES'), ['on', 'off']) === 'on',
    sample: oneOf('SAMPLE', text('SAMPLE'), ['on', 'off']) === 'on',
    rateLimit: readRateLimit('RATE_LIMIT', text('RATE_LIMIT')),
    budget: readBudget(variable),
    audit: oneOf('AUDIT', text('AUDIT'), ['on', 'off']) === 'on',
    acceptStoreLoss: oneOf('ACCEPT_STORE_LOSS', text('ACCEPT_STORE_LOSS'), ['0', '1']) === '1',
    tokens,
    tls,
    webhook: readWebhook(variable),
    compat: compat === undefined ? undefined : oneOf('COMPAT', compat, settings.COMPAT.type),
    sessionIDs: oneOf('SESSION_IDS', text('SESSION_IDS'), settings.SESSION_IDS.type),
    apiGroup: readGroup('API_GROUP', text('API_GROUP')),
    allowedHosts: (variable('ALLOWED_HOSTS')?.split(',') ?? []).map((name) => readHost('ALLOWED_HOSTS', name.trim())),
    allowedOrigins,
    scalingWebhooks: readOrigins('SCALING_WEBHOOKS', variable('SCALING_WEBHOOKS')),
    logLevel: oneOf('LOG_LEVEL', text('LOG_LEVEL'), logLevels),
  }
}

const tokenSettings = [
  ['ALLOCATE_TOKENS', 'allocate'],
  ['READ_TOKENS', 'read'],
  ['MANAGE_TOKENS', 'manage'],
] as const

/**
 * Entries are `token` or `name:token`; without a name, a token is named after its place. A token listed in several variables
 * gets all their roles. Error messages never contain a token.
 */
export function readTokens(variable: VariableReader): readonly BearerToken[] {
  const known = new Map<string, { name?: string; readonly place: string; readonly roles: Role[] }>()
  for (const [variableName, role] of tokenSettings) {
    for (const [index, entry] of (variable(variableName)?.split(',') ?? []).entries()) {
      const [, name, token = ''] = /^(?:([\w.-]{1,64}):)?([\w.~+/=-]{16,})$/.exec(entry.trim()) ?? []
      if (token === '') {
        throw new UsageError(
          `${variableName} must be comma-separated tokens of at least 16 characters (letters, digits, -._~+/=), each with or without a name in front (name:token), but entry ${index + 1} is not; generate one with: openssl rand -hex 32`,
        )
      }
      const same = known.get(token) ?? { place: `${variableName}[${index}]`, roles: [] }
      if (name !== undefined) same.name ??= name
      if (!same.roles.includes(role)) same.roles.push(role)
      known.set(token, same)
    }
  }
  return [...known].map(([token, { name, place, roles }]) => ({ token, roles, name: name ?? place }))
}

type Isolation = Pick<Config, 'isolation' | 'runAs' | 'readOnlyPaths'>

function readIsolation(backend: string, mode: string, variable: VariableReader): Isolation {
  const isolation = oneOf('ISOLATION', mode, isolations)
  const [user, paths] = [variable('RUN_AS'), variable('READ_ONLY_PATHS')]
  if (backend !== 'process' && (isolation !== 'none' || user !== undefined || paths !== undefined)) {
    const names = 'ISOLATION, RUN_AS and READ_ONLY_PATHS'
    throw new UsageError(`${names} apply only to BACKEND=process, but BACKEND is ${JSON.stringify(backend)}`)
  }
  const readOnlyPaths = paths?.split(',').map((path) => path.trim()) ?? []
  if (user === undefined) return { isolation, readOnlyPaths, runAs: undefined }
  const [name = '', group, ...more] = user.split(':').map((part) => (/^\d+$/.test(part) ? Number(part) : part))
  if (name === '' || group === '' || more.length > 0) throw invalid('RUN_AS', 'must be user or user:group', user)
  return { isolation, readOnlyPaths, runAs: { user: name, ...(group !== undefined && { group }) } }
}

function readGrpcPort(compat: string | undefined, variable: VariableReader): number | undefined {
  const port = variable('GRPC_PORT')
  if (port === undefined) return undefined
  if (compat !== 'agones') throw new UsageError("GRPC_PORT is for callers of Agones' allocator: set COMPAT=agones")
  return readPort('GRPC_PORT', port)
}

function readHealth(fallback: string, variable: VariableReader): Config['health'] {
  const [host, port] = [variable('HEALTH_HOST'), variable('HEALTH_PORT')]
  if (port !== undefined) {
    return { host: host === undefined ? fallback : readHost('HEALTH_HOST', host), port: readPort('HEALTH_PORT', port) }
  }
  if (host !== undefined) throw new UsageError('HEALTH_HOST is the address of HEALTH_PORT: set both')
  return undefined
}

function readForwarding(backend: string, port: number, variable: VariableReader): Config['forwarding'] {
  const given = variable('FORWARDING_ADDRESS')
  if (given === undefined || backend !== 'kubernetes') return undefined
  if (port === 0) throw new UsageError('FORWARDING_PORT must not be 0, since the other servers have to know it')
  // A pod's own address has no brackets.
  const address = isIPv6(given) ? `[${given}]` : readHostAndPort('FORWARDING_ADDRESS', given)
  return { address: /:\d+$/.test(address) ? address : `${address}:${port}`, port }
}

function readBudget(variable: VariableReader): BudgetOptions | undefined {
  const [servers, cpu, memory] = [variable('BUDGET_SERVERS'), variable('BUDGET_CPU'), variable('BUDGET_MEMORY')]
  if (servers === undefined && cpu === undefined && memory === undefined) return undefined
  return {
    ...(servers !== undefined && { servers: readCount('BUDGET_SERVERS', servers) }),
    ...(cpu !== undefined && { cpu: readQuantity('BUDGET_CPU', cpu, '16 or 500m') }),
    ...(memory !== undefined && { memory: readQuantity('BUDGET_MEMORY', memory, '64Gi') }),
  }
}

function readTls(variable: VariableReader): TlsOptions | undefined {
  const [cert, key, ca] = [variable('TLS_CERT'), variable('TLS_KEY'), variable('TLS_CLIENT_CA')]
  if (cert === undefined && key === undefined && ca === undefined) return undefined
  if (cert === undefined || key === undefined) {
    throw new UsageError('TLS_CERT and TLS_KEY must be set together; TLS_CLIENT_CA requires both')
  }
  return { cert, key, ...(ca !== undefined && { ca }) }
}

function readWebhook(variable: VariableReader): Config['webhook'] {
  const [url, secret] = [variable('WEBHOOK_URL'), variable('WEBHOOK_SECRET')]
  if (url === undefined && secret === undefined) return undefined
  if (url === undefined || secret === undefined)
    throw new UsageError('WEBHOOK_URL and WEBHOOK_SECRET must be set together')
  if (!/^https?:\/\//.test(url) || !URL.canParse(url))
    throw new UsageError('WEBHOOK_URL must be a URL like https://example.com/hook')
  if (secret.length < 16) throw new UsageError('WEBHOOK_SECRET must have at least 16 characters')
  return { url, secret }
}

function unauthenticated(setting: string, who: string): UsageError {
  return new UsageError(
    `${setting} would let ${who} allocate game servers and end matches: set ALLOCATE_TOKENS and MANAGE_TOKENS, or TLS_CERT, TLS_KEY and TLS_CLIENT_CA for client certificates, or INSECURE=1 if a proxy in front authenticates callers`,
  )
}

// Reads the value of one setting: each throws UsageError that names the setting and what it must be.

type VariableReader = (name: SettingName) => string | undefined

function oneOf<T extends string>(name: SettingName, value: string, known: readonly T[]): T {
  const found = known.find((one) => one === value)
  if (found === undefined) throw invalid(name, `must be ${listed(known)}`, value)
  return found
}

function readPort(name: SettingName, value: string): number {
  const port = /^\d{1,5}$/.test(value) ? Number(value) : NaN
  if (!(port <= 65_535)) throw invalid(name, 'must be a port from 0 to 65535', value)
  return port
}

/** Returns ms. */
function readSeconds(name: SettingName, value: string | undefined): number | undefined {
  if (value === undefined) return undefined
  const seconds = /^\d{1,8}$/.test(value) ? Number(value) : 0
  if (seconds < 1) throw invalid(name, 'must be a number of seconds from 1 to 99999999', value)
  return seconds * 1000
}

function readLeaseMs(name: SettingName, value: string): number {
  const ms = /^\d{1,8}$/.test(value) ? Number(value) : 0
  if (ms < 2_000) throw invalid(name, 'must be a number of milliseconds from 2000 to 99999999', value)
  return ms
}

function readRateLimit(name: SettingName, value: string): number | undefined {
  if (value === 'off') return undefined
  const perSecond = /^\d{1,6}$/.test(value) ? Number(value) : 0
  if (perSecond < 1) throw invalid(name, 'must be a number of requests per second from 1 to 999999, or off', value)
  return perSecond
}

function readCount(name: SettingName, value: string): number {
  const count = /^\d{1,8}$/.test(value) ? Number(value) : 0
  if (count < 1) throw invalid(name, 'must be a number from 1 to 99999999', value)
  return count
}

function readQuantity(name: SettingName, value: string, example: string): string {
  if (!(quantityOf(value) > 0)) throw invalid(name, `must be a Kubernetes quantity above 0, such as ${example}`, value)
  return value
}

function readRange(name: SettingName, value: string): PortRange {
  const [, first, last] = (/^(\d{1,5})-(\d{1,5})$/.exec(value) ?? []).map(Number)
  if (first === undefined || last === undefined || first < 1 || last > 65_535 || first > last) {
    throw invalid(name, 'must be a range of ports from 1 to 65535, like 10000-12000', value)
  }
  return { first, last }
}

/** Returns it without a slash at the end. */
function readUrl(name: SettingName, value: string | undefined): string | undefined {
  if (value === undefined) return undefined
  const url = URL.canParse(value) ? new URL(value) : undefined
  if (!/^https?:$/.test(url?.protocol ?? '') || url?.search !== '' || url.hash !== '' || url.username !== '')
    throw invalid(name, 'must be a URL like http://gamekeeper-allocation.games:5000', value)
  return url.href.replace(/\/$/, '')
}

/** A host name or IP address, without scheme, port or path. */
function readHost(name: SettingName, value: string): string {
  if (isIP(value) === 0 && !/^[\w.-]+$/.test(value)) throw invalid(name, 'must be an IP address or a host name', value)
  return value
}

function readDomainName(variable: VariableReader): string | undefined {
  const name = 'FULLY_QUALIFIED_DOMAIN_NAME'
  const value = variable(name)
  if (value === undefined) return undefined
  const example = value.replaceAll('{node}', 'node')
  if (!/^(?!-)[a-z0-9-]+(?<!-)(\.(?!-)[a-z0-9-]+(?<!-))*$/i.test(example) || isIP(example) !== 0) {
    throw invalid(name, 'must be a DNS name such as {node}.example.com, without a port', value)
  }
  return value
}

function readNamespaces(name: SettingName, value: string): readonly string[] {
  const namespaces = value.split(',').map((one) => one.trim())
  if (!namespaces.every((one) => /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/.test(one))) {
    throw invalid(name, 'must be comma-separated namespace names', value)
  }
  return namespaces
}

function readOrigins(name: SettingName, value: string | undefined, any?: '*'): readonly string[] {
  const origins = value?.split(',') ?? []
  return origins.map((one) => {
    const origin = one.trim()
    if (origin === any || (URL.canParse(origin) && new URL(origin).origin === origin)) return origin
    throw invalid(name, 'must be origins like https://console.example, without a path', origin)
  })
}

function readGroup(name: SettingName, value: string): string {
  if (value.length > 200 || !/^[a-z0-9]([-.a-z0-9]*[a-z0-9])?\.[a-z]+$/.test(value)) {
    throw invalid(name, 'must be a domain such as mps.gamekeeper.com', value)
  }
  return value
}

function readHostAndPort(name: SettingName, value: string): string {
  if (isIPv6(value))
    throw invalid(name, 'must have its IPv6 address in brackets, like [fd00::4] or [fd00::4]:56001', value)
  // For an IPv6 Service, $(HOST):$(PORT) has no brackets. The value is unambiguous if the part before the last colon is an
  // address but the whole value is not.
  const [, address, digits] = /^(.+:.*):(\d{1,5})$/.exec(value) ?? []
  if (address !== undefined && isIPv6(address)) return readHostAndPort(name, `[${address}]:${digits}`)
  const match = /^([\w.-]+|\[[\da-f:.]+\])(?::(\d{1,5}))?$/i.exec(value)
  if (!match || !(Number(match[2] ?? 1) >= 1 && Number(match[2] ?? 1) <= 65_535)) {
    throw invalid(name, 'must be a host or host:port, without http://', value)
  }
  return value
}

function invalid(name: SettingName, must: string, value: string): UsageError {
  return new UsageError(`${name} ${must}, but is ${JSON.stringify(value)}`)
}

function listed(words: readonly string[]): string {
  return words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} or ${words.at(-1)}`
}
