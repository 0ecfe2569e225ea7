/** Every option of the Docker backend with its default and unit, checked once and frozen. */
import { isIP } from 'node:net'
import { resolve } from 'node:path'
import { type Clock, systemClock } from '../../src/clock.js'
import { FleetError } from '../../src/errors.js'
import { type Logger, silentLogger } from '../../src/logger.js'
import { defaultPortRange, isPort, type PortRange, readPortRange } from '../../src/rules/ports.js'
import { isObject, shown } from '../../src/rules/problem.js'
import { type DockerClient, isClient } from './client.js'
import { labelPrefix } from './labels.js'

export const pullPolicies = ['IfNotPresent', 'Always', 'Never'] as const
export type PullPolicy = (typeof pullPolicies)[number]

export interface RegistryAuth {
  readonly username: string
  readonly password: string
}

export interface DockerBackendOptions {
  /** `new Docker(…)` of dockerode. Default: one for `DOCKER_HOST`, or else for this machine's engine. */
  readonly docker?: DockerClient
  /** Where the default store is kept, and the name that tells this fleet from others. Default `.gamekeeper`. */
  readonly directory?: string
  /**
   * Tells this fleet's containers from those of other fleets on the engine: lower case letters, digits and dashes, at most
   * 40. Default: drawn once and kept in `directory`.
   */
  readonly fleet?: string
  /** Where players connect: a host name or an IP address. Default `127.0.0.1`, or the engine's host when that is another machine. */
  readonly publicAddress?: string
  /** Name of the engine's machine, as `status.nodeName` shows it. Default: what the engine says. */
  readonly node?: string
  /** Public ports, both ends included: `{ first, last }` or `'10000-12000'`. Default 10000–12000. */
  readonly portRange?: PortRange | string
  /** IP address of the engine's machine on which public ports are opened. Default `0.0.0.0`. */
  readonly bindAddress?: string
  /** When images are pulled. A template's `imagePullPolicy` goes before it. Default `IfNotPresent`. */
  readonly pullPolicy?: PullPolicy
  /** By registry, such as `ghcr.io` or `docker.io`. Default none. */
  readonly registryAuth?: Readonly<Record<string, RegistryAuth>>
  /** Networks that containers are on, by name; the first is the one that ports are opened for. Default: the engine's bridge. */
  readonly networks?: readonly string[]
  /** Labels that containers get besides the fleet's own, which begin with `gamekeeper.`. */
  readonly labels?: Readonly<Record<string, string>>
  /** Linux capabilities given and taken, such as `{ add: ['SYS_NICE'], drop: ['ALL'] }`. */
  readonly capabilities?: { readonly add?: readonly string[]; readonly drop?: readonly string[] }
  /** Default: the engine's driver, and where that is a file of its own, two files of 10 MiB for each container. */
  readonly log?: { readonly driver: string; readonly options?: Readonly<Record<string, string>> }
  /**
   * Runs games under the engine's small init process, so that one that does not handle SIGTERM ends by it all the same.
   * Default true.
   */
  readonly init?: boolean
  /** Longest wait for an answer of the engine when it is only asked. Default 20 s. */
  readonly readMs?: number
  /** The same when it is told to do something. Default 100 s. */
  readonly changeMs?: number
  /** A pull that has not moved for this long has failed. Default 120 s. */
  readonly pullIdleMs?: number
  /** Default: silent. */
  readonly logger?: Logger
  /** Default: the real one. */
  readonly clock?: Clock
}

type Given = 'docker' | 'fleet' | 'publicAddress' | 'node' | 'log'

export type ResolvedDockerOptions = Omit<Required<DockerBackendOptions>, 'portRange' | 'capabilities' | Given> & {
  readonly [name in Given]: DockerBackendOptions[name]
} & {
  readonly portRange: PortRange
  readonly capabilities: { readonly add: readonly string[]; readonly drop: readonly string[] }
}

const known: ReadonlySet<string> = new Set([
  'docker',
  'directory',
  'fleet',
  'publicAddress',
  'node',
  'portRange',
  'bindAddress',
  'pullPolicy',
  'registryAuth',
  'networks',
  'labels',
  'capabilities',
  'log',
  'init',
  'readMs',
  'changeMs',
  'pullIdleMs',
  'logger',
  'clock',
] satisfies (keyof DockerBackendOptions)[])

/** Throws `invalid`, naming the option. */
export function resolveDockerOptions(options: DockerBackendOptions): ResolvedDockerOptions {
  for (const name of Object.keys(options)) {
    if (!known.has(name)) {
      throw new FleetError('invalid', `dockerBackend: ${name} is not an option; known are ${[...known].join(', ')}`)
    }
  }
  const { docker, fleet, publicAddress, node, log } = options
  if (docker !== undefined && !isClient(docker)) refuse('docker', 'must be a client of dockerode', docker)
  if (fleet !== undefined && !(typeof fleet === 'string' && isFleetName(fleet))) {
    refuse('fleet', 'must be lower case letters, digits and dashes, at most 40', fleet)
  }
  return Object.freeze({
    docker,
    directory: resolve(text('directory', options.directory, '.gamekeeper')),
    fleet,
    publicAddress: publicAddress === undefined ? undefined : host('publicAddress', publicAddress),
    node: node === undefined ? undefined : text('node', node, ''),
    portRange: portRange(options.portRange ?? defaultPortRange),
    bindAddress: ip('bindAddress', options.bindAddress ?? '0.0.0.0'),
    pullPolicy: pullPolicy(options.pullPolicy ?? 'IfNotPresent'),
    registryAuth: auths(options.registryAuth ?? {}),
    networks: networks(options.networks ?? []),
    labels: labels(options.labels ?? {}),
    capabilities: capabilities(options.capabilities ?? {}),
    log: log === undefined ? undefined : logOptions(log),
    init: flag('init', options.init, true),
    readMs: whole('readMs', options.readMs, 20_000),
    changeMs: whole('changeMs', options.changeMs, 100_000),
    pullIdleMs: whole('pullIdleMs', options.pullIdleMs, 120_000),
    logger: options.logger ?? silentLogger,
    clock: options.clock ?? systemClock,
  })
}

export function isFleetName(text: string): boolean {
  return /^[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?$/.test(text)
}

export function isPullPolicy(value: unknown): value is PullPolicy {
  return pullPolicies.some((policy) => policy === value)
}

function text(name: string, value: unknown, fallback: string): string {
  if (value === undefined) return fallback
  if (typeof value !== 'string' || value.trim() === '' || value.includes('\0')) {
    refuse(name, 'must be a string with something in it', value)
  }
  return value
}

/** What is no address the engine takes for none, and opens ports to everybody. It knows no zones. */
function ip(name: string, value: unknown): string {
  if (typeof value !== 'string' || isIP(value) === 0 || value.includes('%')) {
    refuse(name, 'must be an IP address such as 127.0.0.1', value)
  }
  return value
}

const hostPart = /^(?!-)[a-z0-9_-]{1,63}(?<!-)$/i

function host(name: string, value: unknown): string {
  const isHost =
    typeof value === 'string' && value.length <= 253 && value.split('.').every((part) => hostPart.test(part))
  // Four numbers that are no address are no name either.
  const isName = isHost && !/^[\d.]+$/.test(value)
  if (typeof value !== 'string' || (isIP(value) === 0 && !isName)) {
    refuse(name, 'must be a host name or an IP address, without http:// and without a port', value)
  }
  return value
}

function whole(name: string, value: unknown, fallback: number): number {
  if (value === undefined) return fallback
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < 1) {
    refuse(name, 'must be an integer ≥ 1', value)
  }
  return value
}

function flag(name: string, value: unknown, fallback: boolean): boolean {
  if (value === undefined) return fallback
  if (typeof value !== 'boolean') refuse(name, 'must be true or false', value)
  return value
}

function pullPolicy(value: unknown): PullPolicy {
  if (!isPullPolicy(value)) refuse('pullPolicy', `must be one of ${pullPolicies.join(', ')}`, value)
  return value
}

function auths(value: unknown): Readonly<Record<string, RegistryAuth>> {
  const must = "must hold a { username, password } for each registry's name"
  if (!isObject(value)) refuse('registryAuth', must, 'something else')
  const read = Object.entries(value).map(([registry, auth]) => {
    const username: unknown = isObject(auth) ? auth['username'] : undefined
    const password: unknown = isObject(auth) ? auth['password'] : undefined
    // Not shown: it holds a secret.
    if (typeof username !== 'string' || typeof password !== 'string') refuse(`registryAuth.${registry}`, must, 'not')
    return [registry, Object.freeze({ username, password })] as const
  })
  return Object.freeze(Object.fromEntries(read))
}

/** These have no public ports of their own. */
const withoutPorts = /^(?:host|none|container:.*)$/

function networks(value: unknown): readonly string[] {
  const names = strings('networks', value, "must be an array of networks' names")
  const unfit = names.find((name) => withoutPorts.test(name))
  if (unfit !== undefined) refuse('networks', 'must be networks on which ports can be opened', unfit)
  return names
}

function labels(value: unknown): Readonly<Record<string, string>> {
  const read = texts('labels', value)
  const taken = Object.keys(read).find((name) => name.startsWith(labelPrefix))
  if (taken !== undefined) refuse('labels', `must not begin with ${labelPrefix}`, taken)
  return read
}

function capabilities(value: unknown): ResolvedDockerOptions['capabilities'] {
  if (!isObject(value)) refuse('capabilities', 'must be { add, drop }', value)
  const unknown = Object.keys(value).find((name) => name !== 'add' && name !== 'drop')
  if (unknown !== undefined) refuse('capabilities', 'must be { add, drop }', unknown)
  const must = "must be an array of capabilities' names"
  return Object.freeze({
    add: strings('capabilities.add', value['add'] ?? [], must),
    drop: strings('capabilities.drop', value['drop'] ?? [], must),
  })
}

function logOptions(value: unknown): NonNullable<DockerBackendOptions['log']> {
  if (!isObject(value)) refuse('log', 'must be { driver, options }', value)
  return Object.freeze({
    driver: text('log.driver', value['driver'] ?? '', ''),
    options: texts('log.options', value['options'] ?? {}),
  })
}

function texts(name: string, value: unknown): Readonly<Record<string, string>> {
  if (!isObject(value)) refuse(name, 'must be an object of strings', value)
  const read = Object.entries(value).map(([key, entry]) => {
    if (typeof entry !== 'string') refuse(`${name}.${key}`, 'must be a string', entry)
    return [key, entry] as const
  })
  return Object.freeze(Object.fromEntries(read))
}

function strings(name: string, value: unknown, must: string): readonly string[] {
  if (!Array.isArray(value)) refuse(name, must, value)
  return Object.freeze(
    value.map((entry: unknown) => {
      if (typeof entry !== 'string' || entry === '') refuse(name, must, value)
      return entry
    }),
  )
}

function portRange(value: unknown): PortRange {
  if (typeof value === 'string') {
    const read = readPortRange(value, 'portRange')
    if (!read.ok) throw new FleetError('invalid', `dockerBackend: portRange ${read.problem.message}`)
    return Object.freeze(read.value)
  }
  const first: unknown = isObject(value) ? value['first'] : undefined
  const last: unknown = isObject(value) ? value['last'] : undefined
  if (!isPort(first) || !isPort(last) || first > last) {
    refuse('portRange', 'must be { first, last } with ports from 1 to 65535, lower first', value)
  }
  return Object.freeze({ first, last })
}

function refuse(name: string, must: string, value: unknown): never {
  throw new FleetError('invalid', `dockerBackend: ${name} ${must}, but is ${shown(value)}`)
}
