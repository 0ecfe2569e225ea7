/** The options of the process backend: defaults, units and validation. */
import { hostname } from 'node:os'
import { resolve } from 'node:path'
import { type Clock, systemClock } from '../../src/contracts/clock.js'
import { type Logger, silentLogger } from '../../src/contracts/logger.js'
import { defaultPortRange, type PortRange } from '../../src/rules/model/ports.js'
import { OptionReader } from '../shared/option-reader.js'

export interface ProcessBackendOptions {
  /**
   * Directory that contains the instances, their logs and the default store. Each fleet needs its own. Default `.gamekeeper`
   * in the working directory.
   */
  readonly directory?: string
  /** Address that players connect to. Default `127.0.0.1`. */
  readonly publicAddress?: string
  /** Node name of this machine, shown in `status.nodeName`. Default: its host name. */
  readonly node?: string
  /** Range of public ports, both ends inclusive: `{ first, last }` or `'10000-12000'`. Default 10000–12000. */
  readonly portRange?: PortRange | string
  /** Names of host variables that games inherit in addition to `inheritedVariables`. Default: none. */
  readonly inheritEnv?: readonly string[]
  /** A log that exceeds this size loses its oldest lines; checked once a second. Default 10 MiB. */
  readonly logMaxBytes?: number
  /** How long a log is kept after its server has been terminated. Default 24 h. */
  readonly logRetentionMs?: number
  /** Maximum number of terminated servers' logs; the oldest are removed first. Default 1000. */
  readonly maxLogFiles?: number
  /** Polling interval for processes that an earlier host started. Default 250 ms. */
  readonly pollIntervalMs?: number
  /** Default: no logging. */
  readonly logger?: Logger
  /** Default: the system clock. */
  readonly clock?: Clock
}

export type ResolvedProcessOptions = Omit<Required<ProcessBackendOptions>, 'portRange'> & {
  readonly portRange: PortRange
}

const reader: OptionReader = new OptionReader('processBackend')

const optionNames = [
  'directory',
  'publicAddress',
  'node',
  'portRange',
  'inheritEnv',
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
  return Object.freeze({
    directory: resolve(reader.string('directory', options.directory, '.gamekeeper')),
    publicAddress: reader.string('publicAddress', options.publicAddress, '127.0.0.1'),
    node: reader.string('node', options.node, hostname()),
    portRange: reader.portRange(options.portRange ?? defaultPortRange),
    inheritEnv: reader.strings('inheritEnv', options.inheritEnv ?? [], 'must be an array of variable names'),
    logMaxBytes: reader.integer('logMaxBytes', options.logMaxBytes, 10 * 1024 * 1024, 1024),
    logRetentionMs: reader.integer('logRetentionMs', options.logRetentionMs, 24 * 60 * 60 * 1000, 0),
    maxLogFiles: reader.integer('maxLogFiles', options.maxLogFiles, 1000, 0),
    pollIntervalMs: reader.integer('pollIntervalMs', options.pollIntervalMs, 250, 1),
    logger: options.logger ?? silentLogger,
    clock: options.clock ?? systemClock,
  })
}
