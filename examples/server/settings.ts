/** Reads the configuration from the environment variables in variables.ts. Pure. */
import { isIP, isIPv6 } from 'node:net'
import { resolve } from 'node:path'
import type { PortRange } from 'gamekeeper'
import type { BearerToken, Compat, Role, TlsOptions } from 'gamekeeper/http'
import { type LogLevel, logLevels } from './log.js'
import { renamedSettings, type SettingName, settings } from './variables.js'

/** A mistake in the configuration. Its message names the variable or flag, and is printed without a stack. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

type Defaulted = { [N in SettingName]: (typeof settings)[N] extends { fallback: string } ? N : never }[SettingName]

export const backends = ['process', 'docker', 'kubernetes', 'memory'] as const

const compatFormats: readonly Compat[] = ['thundernetes']

export interface Config {
  readonly backend: (typeof backends)[number]
  readonly host: string
  readonly allocationPort: number
  readonly managementPort: number
  readonly agentPort: number
  readonly agentHost: string | undefined
  readonly agentAddress: string | undefined
  /** An absolute path. */
  readonly dataDir: string
  readonly portRange: PortRange
  readonly publicAddress: string | undefined
  readonly namespaces: readonly string[] | undefined
  readonly systemNamespace: string | undefined
  readonly podName: string | undefined
  readonly sample: boolean
  /** If empty, callers are not authenticated by token. */
  readonly tokens: readonly BearerToken[]
  readonly tls: TlsOptions | undefined
  readonly webhook: { readonly url: string; readonly secret: string } | undefined
  readonly compat: Compat | undefined
  readonly apiGroup: string
  readonly allowedHosts: readonly string[]
  readonly allowedOrigins: readonly string[]
  readonly logLevel: LogLevel
}

/** Throws UsageError for the first variable with an invalid value. */
export function readConfig(env: Readonly<Record<string, string | undefined>>, cwd: string): Config {
  for (const [old, name] of Object.entries(renamedSettings)) {
    if (env[old] !== undefined) throw new UsageError(`${old} was renamed: set ${name} instead`)
  }
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
  const allowedOrigins = readOrigins(variable)
  if (!insecure && isUnauthenticated && allowedOrigins.includes('*')) {
    throw unauthenticated('ALLOWED_ORIGINS=*', 'any web page open in a browser on this machine')
  }
  const namespaces = variable('NAMESPACES')
  const compat = variable('COMPAT')
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
    systemNamespace: variable('SYSTEM_NAMESPACE'),
    podName: variable('POD_NAME'),
    sample: oneOf('SAMPLE', text('SAMPLE'), ['on', 'off']) === 'on',
    tokens,
    tls,
    webhook: readWebhook(variable),
    compat: compat === undefined ? undefined : oneOf('COMPAT', compat, compatFormats),
    apiGroup: readGroup('API_GROUP', text('API_GROUP')),
    allowedHosts: (variable('ALLOWED_HOSTS')?.split(',') ?? []).map((name) => readHost('ALLOWED_HOSTS', name.trim())),
    allowedOrigins,
    logLevel: oneOf('LOG_LEVEL', text('LOG_LEVEL'), logLevels),
  }
}

type VariableReader = (name: SettingName) => string | undefined

const tokenSettings = [
  ['ALLOCATE_TOKENS', 'allocate'],
  ['READ_TOKENS', 'read'],
  ['MANAGE_TOKENS', 'manage'],
] as const

/** A token listed in several variables gets all their roles. Error messages never contain a token. */
function readTokens(variable: VariableReader): readonly BearerToken[] {
  const rolesOf = new Map<string, Set<Role>>()
  for (const [name, role] of tokenSettings) {
    for (const token of variable(name)?.split(',') ?? []) {
      const trimmed = token.trim()
      if (!/^[\w.~+/=-]{16,}$/.test(trimmed)) {
        throw new UsageError(
          `${name} must be comma-separated tokens of at least 16 characters (letters, digits, -._~+/=), but one is not; generate one with: openssl rand -hex 32`,
        )
      }
      rolesOf.set(trimmed, (rolesOf.get(trimmed) ?? new Set()).add(role))
    }
  }
  return [...rolesOf].map(([token, roles]) => ({ token, roles: [...roles] }))
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
    throw invalid('WEBHOOK_URL', 'must be a URL like https://example.com/hook', url)
  if (secret.length < 16) throw new UsageError('WEBHOOK_SECRET must have at least 16 characters')
  return { url, secret }
}

/** True if only this machine can connect to the host. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127\.\d+\.\d+\.\d+$/.test(host)
}

function unauthenticated(setting: string, who: string): UsageError {
  return new UsageError(
    `${setting} would let ${who} allocate game servers and end matches: set ALLOCATE_TOKENS and MANAGE_TOKENS, or TLS_CERT, TLS_KEY and TLS_CLIENT_CA for client certificates, or INSECURE=1 if a proxy in front authenticates callers`,
  )
}

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

function readRange(name: SettingName, value: string): PortRange {
  const [, first, last] = (/^(\d{1,5})-(\d{1,5})$/.exec(value) ?? []).map(Number)
  if (first === undefined || last === undefined || first < 1 || last > 65_535 || first > last) {
    throw invalid(name, 'must be a range of ports from 1 to 65535, like 10000-12000', value)
  }
  return { first, last }
}

/** A host name or IP address, without scheme, port or path. */
function readHost(name: SettingName, value: string): string {
  if (isIP(value) === 0 && !/^[\w.-]+$/.test(value)) throw invalid(name, 'must be an IP address or a host name', value)
  return value
}

function readNamespaces(name: SettingName, value: string): readonly string[] {
  const namespaces = value.split(',').map((one) => one.trim())
  if (!namespaces.every((one) => /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/.test(one))) {
    throw invalid(name, 'must be comma-separated namespace names', value)
  }
  return namespaces
}

function readOrigins(variable: VariableReader): readonly string[] {
  const origins = variable('ALLOWED_ORIGINS')?.split(',') ?? []
  return origins.map((one) => {
    const origin = one.trim()
    if (origin === '*' || (URL.canParse(origin) && new URL(origin).origin === origin)) return origin
    throw invalid('ALLOWED_ORIGINS', 'must be origins like https://console.example, without a path', origin)
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
