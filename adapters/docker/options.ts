/** The options of the Docker backend: defaults, units and validation. */
import { isIP } from 'node:net'
import { type Clock, systemClock } from '../../src/contracts/clock.js'
import { FleetError } from '../../src/contracts/errors.js'
import { type Logger, loggerOf } from '../../src/contracts/logger.js'
import { labelPattern } from '../../src/rules/model/names.js'
import { defaultPortRange, type PortRange } from '../../src/rules/model/ports.js'
import { isObject } from '../../src/rules/validation/problem.js'
import {
  directoryOptionNames,
  type DirectoryOptions,
  OptionReader,
  platformOptionNames,
  type PlatformOptions,
  readDirectoryOptions,
  readPlatformOptions,
} from '../shared/option-reader.js'
import { keptLogsOptionNames, type KeptLogsOptions, readKeptLogsOptions } from '../shared/kept-logs.js'
import { type DockerClient, isClient } from './docker-client.js'
import { labelPrefix } from './containers/labels.js'

export const pullPolicies = ['IfNotPresent', 'Always', 'Never'] as const
export type PullPolicy = (typeof pullPolicies)[number]

export interface RegistryAuth {
  readonly username: string
  readonly password: string
}

export interface DockerBackendOptions extends DirectoryOptions, PlatformOptions, KeptLogsOptions {
  /** A dockerode client, such as `new Docker(…)`. Default: a client for `DOCKER_HOST`, or else for this machine's engine. */
  readonly docker?: DockerClient
  /**
   * Name that distinguishes this fleet's containers from those of other fleets on the same engine. At most 40 lower-case
   * letters, digits and dashes. Default: generated once and stored in `directory`.
   */
  readonly fleet?: string
  /** Host name or IP address that players connect to. Default `127.0.0.1`, or the host of a remote engine. */
  readonly publicAddress?: string
  /** Node name for the engine's machine, shown in `status.nodeName`. Default: the name that the engine reports. */
  readonly node?: string
  /** Range of public ports, both ends inclusive: `{ first, last }` or `'10000-12000'`. Default 10000–12000. */
  readonly portRange?: PortRange | string
  /** IP address on the engine's machine on which public ports are published. Default `0.0.0.0`. */
  readonly bindAddress?: string
  /** When images are pulled; a template's `imagePullPolicy` takes precedence. Default `IfNotPresent`. */
  readonly pullPolicy?: PullPolicy
  /** Credentials by registry, such as `ghcr.io` or `docker.io`. Default none. */
  readonly registryAuth?: Readonly<Record<string, RegistryAuth>>
  /**
   * Names of the networks that containers join; ports are published on the first one. Default: the engine's default bridge.
   */
  readonly networks?: readonly string[]
  /** Labels for containers in addition to the fleet's own, which start with `gamekeeper.`. */
  readonly labels?: Readonly<Record<string, string>>
  /**
   * Linux capabilities to add to and drop from `keptCapabilities`, such as `{ add: ['SYS_NICE'], drop: ['ALL'] }`. All other
   * capabilities are dropped.
   */
  readonly capabilities?: { readonly add?: readonly string[]; readonly drop?: readonly string[] }
  /** Whether set-user-ID programs and file capabilities, such as `sudo`, have no effect in containers. Default true. */
  readonly noNewPrivileges?: boolean
  /** Maximum number of processes and threads in a container. Default 4096. */
  readonly pidsLimit?: number
  /**
   * Log driver and its options. Default: the engine's driver; with `json-file` and `local`, each container keeps two files of
   * 10 MiB.
   */
  readonly log?: { readonly driver: string; readonly options?: Readonly<Record<string, string>> }
  /** Runs games under the engine's init process, so that SIGTERM also stops games that do not handle it. Default true. */
  readonly init?: boolean
  /** Timeout for engine calls that only read. Default 20 s. */
  readonly readTimeoutMs?: number
  /** Timeout for engine calls that change something. Default 100 s. */
  readonly changeTimeoutMs?: number
  /** An image pull that makes no progress for this long fails. Default 120 s. */
  readonly pullIdleTimeoutMs?: number
  /** Default: no logging. */
  readonly logger?: Logger | false
  /** Default: the system clock. */
  readonly clock?: Clock
}

/** Options without a fixed default. */
type Optional = 'docker' | 'fleet' | 'publicAddress' | 'node' | 'log'

export type ResolvedDockerOptions = Omit<
  Required<DockerBackendOptions>,
  'portRange' | 'capabilities' | 'logger' | keyof PlatformOptions | Optional
> & {
  readonly [name in Optional]: DockerBackendOptions[name]
} & {
  readonly portRange: PortRange
  readonly platform: PlatformOptions
  readonly logger: Logger
  readonly capabilities: { readonly add: readonly string[]; readonly drop: readonly string[] }
}

const reader: OptionReader = new OptionReader('dockerBackend')

const optionNames = [
  'docker',
  ...directoryOptionNames,
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
  'noNewPrivileges',
  'pidsLimit',
  'log',
  'init',
  ...platformOptionNames,
  ...keptLogsOptionNames,
  'readTimeoutMs',
  'changeTimeoutMs',
  'pullIdleTimeoutMs',
  'logger',
  'clock',
] as const satisfies readonly (keyof DockerBackendOptions)[]

/** Throws `invalid`, naming the invalid option. */
export function resolveDockerOptions(options: DockerBackendOptions): ResolvedDockerOptions {
  reader.rejectUnknown(options, optionNames)
  const { docker, fleet, publicAddress, node, log } = options
  if (docker !== undefined && !isClient(docker)) reader.reject('docker', 'must be a dockerode client', docker)
  if (fleet !== undefined && !(typeof fleet === 'string' && isFleetName(fleet))) {
    reader.reject('fleet', 'must be at most 40 lower-case letters, digits and dashes', fleet)
  }
  return Object.freeze({
    docker,
    ...readDirectoryOptions(reader, options),
    ...readKeptLogsOptions(reader, options),
    fleet,
    publicAddress: publicAddress === undefined ? undefined : reader.host('publicAddress', publicAddress),
    node: node === undefined ? undefined : reader.string('node', node, ''),
    portRange: reader.portRange(options.portRange ?? defaultPortRange),
    bindAddress: ip('bindAddress', options.bindAddress ?? '0.0.0.0'),
    pullPolicy: pullPolicy(options.pullPolicy ?? 'IfNotPresent'),
    registryAuth: registryAuths(options.registryAuth ?? {}),
    networks: networks(options.networks ?? []),
    labels: labels(options.labels ?? {}),
    capabilities: capabilities(options.capabilities ?? {}),
    noNewPrivileges: reader.boolean('noNewPrivileges', options.noNewPrivileges, true),
    pidsLimit: reader.integer('pidsLimit', options.pidsLimit, 4096),
    log: log === undefined ? undefined : logOptions(log),
    init: reader.boolean('init', options.init, true),
    platform: readPlatformOptions(reader, options),
    readTimeoutMs: reader.integer('readTimeoutMs', options.readTimeoutMs, 20_000),
    changeTimeoutMs: reader.integer('changeTimeoutMs', options.changeTimeoutMs, 100_000),
    pullIdleTimeoutMs: reader.integer('pullIdleTimeoutMs', options.pullIdleTimeoutMs, 120_000),
    logger: loggerOf(options.logger),
    clock: options.clock ?? systemClock,
  })
}

export function isFleetName(text: string): boolean {
  return text.length <= 40 && labelPattern.test(text)
}

export function isPullPolicy(value: unknown): value is PullPolicy {
  return pullPolicies.some((policy) => policy === value)
}

/**
 * Validated here because the engine ignores an invalid address and publishes ports on all addresses. Addresses with a zone
 * are not supported by the engine.
 */
function ip(name: string, value: unknown): string {
  if (typeof value !== 'string' || isIP(value) === 0 || value.includes('%')) {
    reader.reject(name, 'must be an IP address such as 127.0.0.1', value)
  }
  return value
}

function pullPolicy(value: unknown): PullPolicy {
  if (!isPullPolicy(value)) reader.reject('pullPolicy', `must be one of ${pullPolicies.join(', ')}`, value)
  return value
}

function registryAuths(value: unknown): Readonly<Record<string, RegistryAuth>> {
  const must = 'must map registry names to { username, password }'
  if (!isObject(value)) reader.reject('registryAuth', must, typeof value)
  const read = Object.entries(value).map(([registry, auth]) => {
    const username: unknown = isObject(auth) ? auth['username'] : undefined
    const password: unknown = isObject(auth) ? auth['password'] : undefined
    // The message must not include the value, which may contain a secret.
    if (typeof username !== 'string' || typeof password !== 'string')
      throw new FleetError(
        'invalid',
        `dockerBackend: registryAuth.${registry} must be { username, password }, both strings`,
      )
    return [registry, Object.freeze({ username, password })] as const
  })
  return Object.freeze(Object.fromEntries(read))
}

/** Networks on which ports cannot be published. */
const withoutPorts = /^(?:host|none|container:.*)$/

function networks(value: unknown): readonly string[] {
  const names = reader.strings('networks', value, 'must be an array of network names')
  const unfit = names.find((name) => withoutPorts.test(name))
  if (unfit !== undefined) reader.reject('networks', 'must be networks that can publish ports', unfit)
  return names
}

function labels(value: unknown): Readonly<Record<string, string>> {
  const read = stringMap('labels', value)
  const taken = Object.keys(read).find((name) => name.startsWith(labelPrefix))
  if (taken !== undefined) reader.reject('labels', `must not begin with ${labelPrefix}`, taken)
  return read
}

function capabilities(value: unknown): ResolvedDockerOptions['capabilities'] {
  if (!isObject(value)) reader.reject('capabilities', 'must be { add, drop }', value)
  const unknown = Object.keys(value).find((name) => name !== 'add' && name !== 'drop')
  if (unknown !== undefined) reader.reject('capabilities', 'must be { add, drop }', unknown)
  const must = 'must be an array of capability names'
  return Object.freeze({
    add: reader.strings('capabilities.add', value['add'] ?? [], must),
    drop: reader.strings('capabilities.drop', value['drop'] ?? [], must),
  })
}

function logOptions(value: unknown): NonNullable<DockerBackendOptions['log']> {
  if (!isObject(value)) reader.reject('log', 'must be { driver, options }', value)
  return Object.freeze({
    driver: reader.string('log.driver', value['driver'] ?? '', ''),
    options: stringMap('log.options', value['options'] ?? {}),
  })
}

function stringMap(name: string, value: unknown): Readonly<Record<string, string>> {
  if (!isObject(value)) reader.reject(name, 'must be an object with string values', value)
  const read = Object.entries(value).map(([key, entry]) => {
    if (typeof entry !== 'string') reader.reject(`${name}.${key}`, 'must be a string', entry)
    return [key, entry] as const
  })
  return Object.freeze(Object.fromEntries(read))
}
