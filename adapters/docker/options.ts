/** Every option of the Docker backend with its default and unit, checked once and frozen. */
import { isIP } from 'node:net'
import { resolve } from 'node:path'
import { type Clock, systemClock } from '../../src/contracts/clock.js'
import { type Logger, silentLogger } from '../../src/contracts/logger.js'
import { OptionReader } from '../shared/option-reader.js'
import { defaultPortRange, type PortRange } from '../../src/rules/model/ports.js'
import { isObject } from '../../src/rules/validation/problem.js'
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
  readonly readTimeoutMs?: number
  /** The same when it is told to do something. Default 100 s. */
  readonly changeTimeoutMs?: number
  /** A pull that has not moved for this long has failed. Default 120 s. */
  readonly pullIdleTimeoutMs?: number
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

const reader: OptionReader = new OptionReader('dockerBackend')

const known = [
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
  'readTimeoutMs',
  'changeTimeoutMs',
  'pullIdleTimeoutMs',
  'logger',
  'clock',
] as const satisfies readonly (keyof DockerBackendOptions)[]

/** Throws `invalid`, naming the option. */
export function resolveDockerOptions(options: DockerBackendOptions): ResolvedDockerOptions {
  reader.only(options, known)
  const { docker, fleet, publicAddress, node, log } = options
  if (docker !== undefined && !isClient(docker)) reader.refuse('docker', 'must be a client of dockerode', docker)
  if (fleet !== undefined && !(typeof fleet === 'string' && isFleetName(fleet))) {
    reader.refuse('fleet', 'must be lower case letters, digits and dashes, at most 40', fleet)
  }
  return Object.freeze({
    docker,
    directory: resolve(reader.text('directory', options.directory, '.gamekeeper')),
    fleet,
    publicAddress: publicAddress === undefined ? undefined : reader.host('publicAddress', publicAddress),
    node: node === undefined ? undefined : reader.text('node', node, ''),
    portRange: reader.portRange(options.portRange ?? defaultPortRange),
    bindAddress: ip('bindAddress', options.bindAddress ?? '0.0.0.0'),
    pullPolicy: pullPolicy(options.pullPolicy ?? 'IfNotPresent'),
    registryAuth: auths(options.registryAuth ?? {}),
    networks: networks(options.networks ?? []),
    labels: labels(options.labels ?? {}),
    capabilities: capabilities(options.capabilities ?? {}),
    log: log === undefined ? undefined : logOptions(log),
    init: reader.flag('init', options.init, true),
    readTimeoutMs: reader.whole('readTimeoutMs', options.readTimeoutMs, 20_000),
    changeTimeoutMs: reader.whole('changeTimeoutMs', options.changeTimeoutMs, 100_000),
    pullIdleTimeoutMs: reader.whole('pullIdleTimeoutMs', options.pullIdleTimeoutMs, 120_000),
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

/** What is no address the engine takes for none, and opens ports to everybody. It knows no zones. */
function ip(name: string, value: unknown): string {
  if (typeof value !== 'string' || isIP(value) === 0 || value.includes('%')) {
    reader.refuse(name, 'must be an IP address such as 127.0.0.1', value)
  }
  return value
}

function pullPolicy(value: unknown): PullPolicy {
  if (!isPullPolicy(value)) reader.refuse('pullPolicy', `must be one of ${pullPolicies.join(', ')}`, value)
  return value
}

function auths(value: unknown): Readonly<Record<string, RegistryAuth>> {
  const must = "must hold a { username, password } for each registry's name"
  if (!isObject(value)) reader.refuse('registryAuth', must, 'something else')
  const read = Object.entries(value).map(([registry, auth]) => {
    const username: unknown = isObject(auth) ? auth['username'] : undefined
    const password: unknown = isObject(auth) ? auth['password'] : undefined
    // Not shown: it holds a secret.
    if (typeof username !== 'string' || typeof password !== 'string')
      reader.refuse(`registryAuth.${registry}`, must, 'not')
    return [registry, Object.freeze({ username, password })] as const
  })
  return Object.freeze(Object.fromEntries(read))
}

/** These have no public ports of their own. */
const withoutPorts = /^(?:host|none|container:.*)$/

function networks(value: unknown): readonly string[] {
  const names = reader.strings('networks', value, "must be an array of networks' names")
  const unfit = names.find((name) => withoutPorts.test(name))
  if (unfit !== undefined) reader.refuse('networks', 'must be networks on which ports can be opened', unfit)
  return names
}

function labels(value: unknown): Readonly<Record<string, string>> {
  const read = texts('labels', value)
  const taken = Object.keys(read).find((name) => name.startsWith(labelPrefix))
  if (taken !== undefined) reader.refuse('labels', `must not begin with ${labelPrefix}`, taken)
  return read
}

function capabilities(value: unknown): ResolvedDockerOptions['capabilities'] {
  if (!isObject(value)) reader.refuse('capabilities', 'must be { add, drop }', value)
  const unknown = Object.keys(value).find((name) => name !== 'add' && name !== 'drop')
  if (unknown !== undefined) reader.refuse('capabilities', 'must be { add, drop }', unknown)
  const must = "must be an array of capabilities' names"
  return Object.freeze({
    add: reader.strings('capabilities.add', value['add'] ?? [], must),
    drop: reader.strings('capabilities.drop', value['drop'] ?? [], must),
  })
}

function logOptions(value: unknown): NonNullable<DockerBackendOptions['log']> {
  if (!isObject(value)) reader.refuse('log', 'must be { driver, options }', value)
  return Object.freeze({
    driver: reader.text('log.driver', value['driver'] ?? '', ''),
    options: texts('log.options', value['options'] ?? {}),
  })
}

function texts(name: string, value: unknown): Readonly<Record<string, string>> {
  if (!isObject(value)) reader.refuse(name, 'must be an object of strings', value)
  const read = Object.entries(value).map(([key, entry]) => {
    if (typeof entry !== 'string') reader.refuse(`${name}.${key}`, 'must be a string', entry)
    return [key, entry] as const
  })
  return Object.freeze(Object.fromEntries(read))
}
