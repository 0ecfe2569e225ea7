/** Every option of the process backend with its default and unit, checked once and frozen. */
import { hostname } from 'node:os'
import { resolve } from 'node:path'
import { type Clock, systemClock } from '../../src/contracts/clock.js'
import { type Logger, silentLogger } from '../../src/contracts/logger.js'
import { OptionReader } from '../shared/option-reader.js'
import { defaultPortRange, type PortRange } from '../../src/rules/model/ports.js'

export interface ProcessBackendOptions {
  /**
   * Where instances, their logs and the default store are kept. Default `.gamekeeper` in the working directory. One
   * fleet, one directory: fleets of different directories do not see each other.
   */
  readonly directory?: string
  /** Where players connect. Default `127.0.0.1`. */
  readonly publicAddress?: string
  /** Name of this machine, as `status.nodeName` shows it. Default: its host name. */
  readonly node?: string
  /** Public ports, both ends included: `{ first, last }` or `'10000-12000'`. Default 10000–12000. */
  readonly portRange?: PortRange | string
  /** Variables of the host that games get besides `inheritedVariables`. Default none. */
  readonly inheritEnv?: readonly string[]
  /** A log over this size loses its older part, looked at once a second. Default 10 MiB. */
  readonly logMaxBytes?: number
  /** How long a log is kept after its server has ended. Default 24 h. */
  readonly logRetentionMs?: number
  /** Most logs kept of servers that have ended; the oldest go first. Default 1000. */
  readonly maxLogFiles?: number
  /** How often processes are looked at that an earlier host has started. Default 250 ms. */
  readonly pollIntervalMs?: number
  /** Default: silent. */
  readonly logger?: Logger
  /** Default: the real one. */
  readonly clock?: Clock
}

export type ResolvedProcessOptions = Omit<Required<ProcessBackendOptions>, 'portRange'> & {
  readonly portRange: PortRange
}

const reader: OptionReader = new OptionReader('processBackend')

const known = [
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

/** Throws `invalid`, naming the option. */
export function resolveProcessOptions(options: ProcessBackendOptions): ResolvedProcessOptions {
  reader.only(options, known)
  return Object.freeze({
    directory: resolve(reader.text('directory', options.directory, '.gamekeeper')),
    publicAddress: reader.text('publicAddress', options.publicAddress, '127.0.0.1'),
    node: reader.text('node', options.node, hostname()),
    portRange: reader.portRange(options.portRange ?? defaultPortRange),
    inheritEnv: reader.strings('inheritEnv', options.inheritEnv ?? [], "must be an array of variables' names"),
    logMaxBytes: reader.whole('logMaxBytes', options.logMaxBytes, 10 * 1024 * 1024, 1024),
    logRetentionMs: reader.whole('logRetentionMs', options.logRetentionMs, 24 * 60 * 60 * 1000, 0),
    maxLogFiles: reader.whole('maxLogFiles', options.maxLogFiles, 1000, 0),
    pollIntervalMs: reader.whole('pollIntervalMs', options.pollIntervalMs, 250, 1),
    logger: options.logger ?? silentLogger,
    clock: options.clock ?? systemClock,
  })
}
