/** Every option of the process backend with its default and unit, checked once and frozen. */
import { hostname } from 'node:os'
import { resolve } from 'node:path'
import { type Clock, systemClock } from '../../src/clock.js'
import { FleetError } from '../../src/errors.js'
import { type Logger, silentLogger } from '../../src/logger.js'
import { defaultPortRange, isPort, type PortRange, readPortRange } from '../../src/rules/ports.js'
import { isObject, shown } from '../../src/rules/problem.js'

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
  readonly logsKept?: number
  /** How often processes are looked at that an earlier host has started. Default 250 ms. */
  readonly pollMs?: number
  /** Default: silent. */
  readonly logger?: Logger
  /** Default: the real one. */
  readonly clock?: Clock
}

export type ResolvedProcessOptions = Omit<Required<ProcessBackendOptions>, 'portRange'> & {
  readonly portRange: PortRange
}

const known: ReadonlySet<string> = new Set([
  'directory',
  'publicAddress',
  'node',
  'portRange',
  'inheritEnv',
  'logMaxBytes',
  'logRetentionMs',
  'logsKept',
  'pollMs',
  'logger',
  'clock',
] satisfies (keyof ProcessBackendOptions)[])

/** Throws `invalid`, naming the option. */
export function resolveProcessOptions(options: ProcessBackendOptions): ResolvedProcessOptions {
  for (const name of Object.keys(options)) {
    if (!known.has(name)) {
      throw new FleetError('invalid', `processBackend: ${name} is not an option; known are ${[...known].join(', ')}`)
    }
  }
  return Object.freeze({
    directory: resolve(text('directory', options.directory, '.gamekeeper')),
    publicAddress: text('publicAddress', options.publicAddress, '127.0.0.1'),
    node: text('node', options.node, hostname()),
    portRange: portRange(options.portRange ?? defaultPortRange),
    inheritEnv: names('inheritEnv', options.inheritEnv ?? []),
    logMaxBytes: whole('logMaxBytes', options.logMaxBytes, 10 * 1024 * 1024, 1024),
    logRetentionMs: whole('logRetentionMs', options.logRetentionMs, 24 * 60 * 60 * 1000, 0),
    logsKept: whole('logsKept', options.logsKept, 1000, 0),
    pollMs: whole('pollMs', options.pollMs, 250, 1),
    logger: options.logger ?? silentLogger,
    clock: options.clock ?? systemClock,
  })
}

function text(name: string, value: unknown, fallback: string): string {
  if (value === undefined) return fallback
  if (typeof value !== 'string' || value.trim() === '' || value.includes('\0')) {
    refuse(name, 'must be a string with something in it', value)
  }
  return value
}

function whole(name: string, value: unknown, fallback: number, least: number): number {
  if (value === undefined) return fallback
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < least) {
    refuse(name, `must be an integer ≥ ${least}`, value)
  }
  return value
}

function names(name: string, value: unknown): readonly string[] {
  if (!Array.isArray(value)) refuse(name, "must be an array of variables' names", value)
  return Object.freeze(
    value.map((entry: unknown) => {
      if (typeof entry !== 'string' || entry === '') refuse(name, "must be an array of variables' names", value)
      return entry
    }),
  )
}

function portRange(value: unknown): PortRange {
  if (typeof value === 'string') {
    const read = readPortRange(value, 'portRange')
    if (!read.ok) throw new FleetError('invalid', `processBackend: portRange ${read.problem.message}`)
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
  throw new FleetError('invalid', `processBackend: ${name} ${must}, but is ${shown(value)}`)
}
