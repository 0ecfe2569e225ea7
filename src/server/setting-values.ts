/** Reads the value of one setting: each throws UsageError that names the setting and what it must be. Pure. */
import { isIP, isIPv6 } from 'node:net'
import { UsageError } from '../config/usage-error.js'
import type { SettingName } from '../config/variables.js'
import type { PortRange } from '../index.js'

export type VariableReader = (name: SettingName) => string | undefined

export function oneOf<T extends string>(name: SettingName, value: string, known: readonly T[]): T {
  const found = known.find((one) => one === value)
  if (found === undefined) throw invalid(name, `must be ${listed(known)}`, value)
  return found
}

export function readPort(name: SettingName, value: string): number {
  const port = /^\d{1,5}$/.test(value) ? Number(value) : NaN
  if (!(port <= 65_535)) throw invalid(name, 'must be a port from 0 to 65535', value)
  return port
}

/** Returns ms. */
export function readSeconds(name: SettingName, value: string | undefined): number | undefined {
  if (value === undefined) return undefined
  const seconds = /^\d{1,8}$/.test(value) ? Number(value) : 0
  if (seconds < 1) throw invalid(name, 'must be a number of seconds from 1 to 99999999', value)
  return seconds * 1000
}

export function readLeaseMs(name: SettingName, value: string): number {
  const ms = /^\d{1,8}$/.test(value) ? Number(value) : 0
  if (ms < 2_000) throw invalid(name, 'must be a number of milliseconds from 2000 to 99999999', value)
  return ms
}

export function readRateLimit(name: SettingName, value: string): number | undefined {
  if (value === 'off') return undefined
  const perSecond = /^\d{1,6}$/.test(value) ? Number(value) : 0
  if (perSecond < 1) throw invalid(name, 'must be a number of requests per second from 1 to 999999, or off', value)
  return perSecond
}

export function readRange(name: SettingName, value: string): PortRange {
  const [, first, last] = (/^(\d{1,5})-(\d{1,5})$/.exec(value) ?? []).map(Number)
  if (first === undefined || last === undefined || first < 1 || last > 65_535 || first > last) {
    throw invalid(name, 'must be a range of ports from 1 to 65535, like 10000-12000', value)
  }
  return { first, last }
}

/** Returns it without a slash at the end. */
export function readUrl(name: SettingName, value: string | undefined): string | undefined {
  if (value === undefined) return undefined
  const url = URL.canParse(value) ? new URL(value) : undefined
  if (!/^https?:$/.test(url?.protocol ?? '') || url?.search !== '' || url.hash !== '' || url.username !== '')
    throw invalid(name, 'must be a URL like http://gamekeeper-allocation.games:5000', value)
  return url.href.replace(/\/$/, '')
}

/** A host name or IP address, without scheme, port or path. */
export function readHost(name: SettingName, value: string): string {
  if (isIP(value) === 0 && !/^[\w.-]+$/.test(value)) throw invalid(name, 'must be an IP address or a host name', value)
  return value
}

export function readDomainName(variable: VariableReader): string | undefined {
  const name = 'FULLY_QUALIFIED_DOMAIN_NAME'
  const value = variable(name)
  if (value === undefined) return undefined
  const example = value.replaceAll('{node}', 'node')
  if (!/^(?!-)[a-z0-9-]+(?<!-)(\.(?!-)[a-z0-9-]+(?<!-))*$/i.test(example) || isIP(example) !== 0) {
    throw invalid(name, 'must be a DNS name such as {node}.example.com, without a port', value)
  }
  return value
}

export function readNamespaces(name: SettingName, value: string): readonly string[] {
  const namespaces = value.split(',').map((one) => one.trim())
  if (!namespaces.every((one) => /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/.test(one))) {
    throw invalid(name, 'must be comma-separated namespace names', value)
  }
  return namespaces
}

export function readOrigins(variable: VariableReader): readonly string[] {
  const origins = variable('ALLOWED_ORIGINS')?.split(',') ?? []
  return origins.map((one) => {
    const origin = one.trim()
    if (origin === '*' || (URL.canParse(origin) && new URL(origin).origin === origin)) return origin
    throw invalid('ALLOWED_ORIGINS', 'must be origins like https://console.example, without a path', origin)
  })
}

export function readGroup(name: SettingName, value: string): string {
  if (value.length > 200 || !/^[a-z0-9]([-.a-z0-9]*[a-z0-9])?\.[a-z]+$/.test(value)) {
    throw invalid(name, 'must be a domain such as mps.gamekeeper.com', value)
  }
  return value
}

export function readHostAndPort(name: SettingName, value: string): string {
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

export function invalid(name: SettingName, must: string, value: string): UsageError {
  return new UsageError(`${name} ${must}, but is ${JSON.stringify(value)}`)
}

function listed(words: readonly string[]): string {
  return words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} or ${words.at(-1)}`
}
