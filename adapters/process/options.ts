/** The options of the process backend: defaults, units and validation. */
import { hostname } from 'node:os'
import { isAbsolute, join, resolve } from 'node:path'
import type { GameOutput } from '../../src/contracts/backend.js'
import { type Clock, systemClock } from '../../src/contracts/clock.js'
import { type Logger, loggerOf } from '../../src/contracts/logger.js'
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

/** Names or numbers. The group is by default that of the user, or has the same number. */
export interface RunAs {
  readonly user: string | number
  readonly group?: string | number
}

export interface GameLimits {
  /**
   * Maximum memory of a server, in bytes; the lower of this and the template's `resources.limits.memory` holds. A server that
   * exceeds it is ended. Without a writable cgroup: of each process, without mapped files and shared memory.
   */
  readonly memoryBytes?: number
  /** Maximum number of processes and threads of a server. Requires a writable cgroup, or a user for each server. */
  readonly tasks?: number
  /** Maximum number of files that each process may have open. */
  readonly openFiles?: number
}

export const isolations = ['none', 'user', 'systemd'] as const

export interface ProcessBackendOptions extends DirectoryOptions, PlatformOptions {
  /**
   * For a laptop: games end with this host. `close` ends them, and so does the end of this process, whatever its cause: each gets
   * SIGTERM and, a second later, SIGKILL. The fleet starts without records, in the subfolder `dev` of `directory`, prints what the games
   * print with the server's name before each line, and lets a game pause in a debugger for 10 minutes. `{ output }` receives those lines
   * instead. Default false: games outlive this host.
   */
  readonly development?: boolean | { readonly output: GameOutput }
  /** Address that players connect to. Default `127.0.0.1`. */
  readonly publicAddress?: string
  /** Node name of this machine, shown in `status.nodeName`. Default: its host name. */
  readonly node?: string
  /** Range of public ports, both ends inclusive: `{ first, last }` or `'10000-12000'`. Default 10000–12000. */
  readonly portRange?: PortRange | string
  /** Names of host variables that games inherit in addition to `inheritedVariables`. Default: none. */
  readonly inheritEnv?: readonly string[]
  /**
   * `none`: games run as the user of this host, or as `runAs`. `user`: each server runs as a separate user, sees only its
   * own processes, and cannot read the files of the host or of other servers. Requires Linux, root, and the programs of
   * util-linux. `systemd`: each server is a transient service `gamekeeper-*` in `gamekeeper.slice`, with its own cgroup, user and `/tmp`,
   * and sees only its own processes and folders, the system's programs (read-only), its build's working directory and program, and
   * `readOnlyPaths`. Requires root, and systemd 248 or later as process 1. Default `none`.
   */
  readonly isolation?: (typeof isolations)[number]
  /** Absolute paths that games may read, with `isolation: 'systemd'`, beside those above. Default: none. */
  readonly readOnlyPaths?: readonly string[]
  /** User of all games, unless `isolation` is `user`. Requires Linux and root. Default: the user of this host. */
  readonly runAs?: RunAs
  /** User ids for servers that have a user of their own, also used as group ids. Default 2000000000–2000009999. */
  readonly userIDs?: { readonly first: number; readonly last: number }
  /** Limits of the system for each game. Default: those of this host; with a user for each server, 4096 tasks. */
  readonly limits?: GameLimits
  /** A log that exceeds this size loses its oldest lines; checked once a second. Default 10 MiB. */
  readonly logMaxBytes?: number
  /** How long a log is kept after its server has been terminated. Default 24 h. */
  readonly logRetentionMs?: number
  /** Maximum number of terminated servers' logs; the oldest are removed first. Default 1000. */
  readonly maxLogFiles?: number
  /** Polling interval for processes that an earlier host started. Default 250 ms. */
  readonly pollIntervalMs?: number
  /** Default: no logging. */
  readonly logger?: Logger | false
  /** Default: the system clock. */
  readonly clock?: Clock
}

export type ResolvedProcessOptions = Omit<
  Required<ProcessBackendOptions>,
  'development' | 'portRange' | 'logger' | 'runAs' | keyof PlatformOptions
> & {
  readonly development: { readonly output: GameOutput } | undefined
  readonly runAs: RunAs | undefined
  readonly portRange: PortRange
  readonly logger: Logger
  readonly platform: PlatformOptions
}

const reader: OptionReader = new OptionReader('processBackend')

const optionNames = [
  ...directoryOptionNames,
  'development',
  'publicAddress',
  'node',
  'portRange',
  'inheritEnv',
  'isolation',
  'readOnlyPaths',
  'runAs',
  'userIDs',
  'limits',
  ...platformOptionNames,
  'logMaxBytes',
  'logRetentionMs',
  'maxLogFiles',
  'pollIntervalMs',
  'logger',
  'clock',
] as const satisfies readonly (keyof ProcessBackendOptions)[]

/** Throws `invalid`, naming the invalid option. */
export function resolveProcessOptions(options: ProcessBackendOptions): ResolvedProcessOptions {
  reader.rejectUnknown(options, optionNames)
  const isolation = readIsolation(options.isolation ?? 'none')
  const development = readDevelopment(options.development)
  if (development && isolation === 'systemd') {
    reader.reject(
      'development',
      "must be left out with isolation 'systemd', whose games do not end with this host",
      true,
    )
  }
  const { directory, waitForDirectoryMs } = readDirectoryOptions(reader, options)
  return Object.freeze({
    development,
    // The games of a fleet that is not for development must not end with this host.
    directory: development ? join(directory, 'dev') : directory,
    waitForDirectoryMs,
    publicAddress: reader.string('publicAddress', options.publicAddress, '127.0.0.1'),
    node: reader.string('node', options.node, hostname()),
    portRange: reader.portRange(options.portRange ?? defaultPortRange),
    inheritEnv: reader.strings('inheritEnv', options.inheritEnv ?? [], 'must be an array of variable names'),
    isolation,
    readOnlyPaths: readPaths(options.readOnlyPaths ?? [], isolation),
    runAs: readRunAs(options.runAs, isolation),
    userIDs: readUserIDs(options.userIDs ?? { first: 2_000_000_000, last: 2_000_009_999 }),
    limits: readLimits(options.limits ?? {}),
    platform: readPlatformOptions(reader, options),
    logMaxBytes: reader.integer('logMaxBytes', options.logMaxBytes, 10 * 1024 * 1024, 1024),
    logRetentionMs: reader.integer('logRetentionMs', options.logRetentionMs, 24 * 60 * 60 * 1000, 0),
    maxLogFiles: reader.integer('maxLogFiles', options.maxLogFiles, 1000, 0),
    pollIntervalMs: reader.integer('pollIntervalMs', options.pollIntervalMs, 250, 1),
    logger: loggerOf(options.logger),
    clock: options.clock ?? systemClock,
  })
}

function readDevelopment(value: unknown): ResolvedProcessOptions['development'] {
  if (value === undefined || value === false) return undefined
  if (value === true) return Object.freeze({ output: print })
  const output: unknown = isObject(value) ? value['output'] : undefined
  if (!isGameOutput(output)) return reader.reject('development', 'must be true, false or { output }', value)
  return Object.freeze({ output })
}

function isGameOutput(value: unknown): value is GameOutput {
  return typeof value === 'function'
}

function print(server: string, line: string): void {
  process.stdout.write(`[${server}] ${line}\n`)
}

function readIsolation(value: unknown): ResolvedProcessOptions['isolation'] {
  const known = isolations.find((one) => one === value)
  return known ?? reader.reject('isolation', `must be ${isolations.join(' or ')}`, value)
}

function readPaths(value: unknown, isolation: string): readonly string[] {
  const must = 'must be an array of absolute paths'
  const paths = reader.strings('readOnlyPaths', value, must)
  if (!paths.every((path) => isAbsolute(path))) reader.reject('readOnlyPaths', must, value)
  if (paths.length > 0 && isolation !== 'systemd') reader.reject('readOnlyPaths', "needs isolation 'systemd'", value)
  return Object.freeze(paths.map((path) => resolve(path)))
}

/** The largest id is reserved: it means no user. */
const maxID = 2 ** 32 - 2

function readRunAs(value: unknown, isolation: string): RunAs | undefined {
  if (value === undefined) return undefined
  const must = 'must be { user, group }, names or numbers'
  if (!isObject(value) || !isUser(value['user'])) return reader.reject('runAs', must, value)
  const { user, group } = value
  if (group !== undefined && !isUser(group)) return reader.reject('runAs', must, value)
  if (isolation === 'user') return reader.reject('runAs', "must be left out with isolation 'user'", value)
  return Object.freeze({ user, ...(group === undefined ? {} : { group }) })
}

function isUser(value: unknown): value is string | number {
  return typeof value === 'string' ? /^[\w.][\w.-]*$/.test(value) : isID(value)
}

function isID(value: unknown): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value > 0 && value <= maxID
}

function readUserIDs(value: unknown): ResolvedProcessOptions['userIDs'] {
  const first: unknown = isObject(value) ? value['first'] : undefined
  const last: unknown = isObject(value) ? value['last'] : undefined
  if (!isID(first) || !isID(last) || first > last) {
    return reader.reject('userIDs', `must be { first, last } with ids from 1 to ${maxID}, lower first`, value)
  }
  return Object.freeze({ first, last })
}

const limitNames = ['memoryBytes', 'tasks', 'openFiles'] as const

function readLimits(value: unknown): GameLimits {
  if (!isObject(value)) return reader.reject('limits', `must be { ${limitNames.join(', ')} }`, value)
  const unknown = Object.keys(value).find((name) => !limitNames.some((known) => known === name))
  if (unknown !== undefined) reader.reject('limits', `must be { ${limitNames.join(', ')} }`, unknown)
  const limits: Record<string, number> = {}
  for (const name of limitNames) {
    if (value[name] !== undefined) limits[name] = reader.integer(`limits.${name}`, value[name], 0)
  }
  return Object.freeze(limits)
}
