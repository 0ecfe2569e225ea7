/**
 * Validates a backend's options. An invalid value is rejected with `invalid` and a message that names the option and the
 * expected value.
 */
import { isIP } from 'node:net'
import { join, resolve } from 'node:path'
import type { DefaultStore } from '../../src/contracts/backend.js'
import { FleetError } from '../../src/contracts/errors.js'
import { checkNames } from '../../src/contracts/option-checks.js'
import type { Platform } from '../../src/rules/game/sdk-config.js'
import { isPort, type PortRange, readPortRange } from '../../src/rules/model/ports.js'
import { isObject, shown } from '../../src/rules/validation/problem.js'

const hostPart = /^(?!-)[a-z0-9_-]{1,63}(?<!-)$/i

export class OptionReader {
  /** `owner` is the function that takes the options; every message starts with it. */
  constructor(readonly owner: string) {}

  rejectUnknown(options: unknown, known: readonly string[]): void {
    if (!isObject(options)) {
      throw new FleetError(
        'invalid',
        `${this.owner} takes an object, such as { ${known[0]} }, but got ${shown(options)}`,
      )
    }
    if ('development' in options && !known.includes('development')) {
      throw new FleetError(
        'invalid',
        `${this.owner}: development is an option of processBackend, whose servers can end with the host`,
      )
    }
    checkNames(this.owner, options, known)
  }

  string(name: string, value: unknown, fallback: string): string {
    if (value === undefined) return fallback
    if (typeof value !== 'string' || value.trim() === '' || value.includes('\0')) {
      this.reject(name, 'must be a non-empty string', value)
    }
    return value
  }

  integer(name: string, value: unknown, fallback: number, least = 1): number {
    if (value === undefined) return fallback
    if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < least) {
      this.reject(name, `must be an integer ≥ ${least}`, value)
    }
    return value
  }

  boolean(name: string, value: unknown, fallback: boolean): boolean {
    if (value === undefined) return fallback
    if (typeof value !== 'boolean') this.reject(name, 'must be true or false', value)
    return value
  }

  /** Accepts a host name or an IP address. */
  host(name: string, value: unknown): string {
    const isHost =
      typeof value === 'string' && value.length <= 253 && value.split('.').every((part) => hostPart.test(part))
    // A value of digits and dots that is not a valid IP address is not a host name either.
    const isName = isHost && !/^[\d.]+$/.test(value)
    if (typeof value !== 'string' || (isIP(value) === 0 && !isName)) {
      this.reject(name, 'must be a host name or an IP address, without http:// and without a port', value)
    }
    return value
  }

  strings(name: string, value: unknown, must: string): readonly string[] {
    if (!Array.isArray(value)) this.reject(name, must, value)
    return Object.freeze(
      value.map((entry: unknown) => {
        if (typeof entry !== 'string' || entry === '') this.reject(name, must, value)
        return entry
      }),
    )
  }

  portRange(value: unknown): PortRange {
    if (typeof value === 'string') {
      const read = readPortRange(value, 'portRange')
      if (!read.ok) throw new FleetError('invalid', `${this.owner}: portRange ${read.problem.message}`)
      return Object.freeze(read.value)
    }
    const first: unknown = isObject(value) ? value['first'] : undefined
    const last: unknown = isObject(value) ? value['last'] : undefined
    if (!isPort(first) || !isPort(last) || first > last) {
      this.reject('portRange', 'must be { first, last } with ports from 1 to 65535, lower first', value)
    }
    return Object.freeze({ first, last })
  }

  reject(name: string, must: string, value: unknown): never {
    throw new FleetError('invalid', `${this.owner}: ${name} ${must}, but is ${shown(value)}`)
  }
}

/** The options with which all backends tell games where they run, and their validation. */
export interface PlatformOptions {
  /** PlayFab title of the games, passed to them as `PF_TITLE_ID`. Default: empty. */
  readonly titleId?: string
  /** Region of the servers, passed to games as `PF_REGION`. */
  readonly region?: string
  /**
   * Public DNS name of a server's machine, passed to games as `PF_FQDN` and in their SDK configuration. `{node}` is replaced by
   * the name of the server's node, as in `{node}.example.com`.
   */
  readonly fullyQualifiedDomainName?: string
}

export const platformOptionNames = [
  'titleId',
  'region',
  'fullyQualifiedDomainName',
] as const satisfies readonly (keyof PlatformOptions)[]

/** Throws `invalid`, naming the invalid option. */
export function readPlatformOptions(reader: OptionReader, options: PlatformOptions): PlatformOptions {
  const { titleId, region, fullyQualifiedDomainName } = options
  return Object.freeze({
    ...(titleId !== undefined && { titleId: reader.string('titleId', titleId, '') }),
    ...(region !== undefined && { region: reader.string('region', region, '') }),
    ...(fullyQualifiedDomainName !== undefined && {
      fullyQualifiedDomainName: domainName(reader, fullyQualifiedDomainName),
    }),
  })
}

/** Returns the values for a server on this node. `defaults` is what the node itself reports. */
export function platformOn(
  node: string,
  options: PlatformOptions,
  defaults: Partial<Pick<Platform, 'region' | 'fullyQualifiedDomainName'>> = {},
): Platform {
  return {
    titleId: options.titleId ?? '',
    region: options.region ?? defaults.region ?? '',
    fullyQualifiedDomainName:
      options.fullyQualifiedDomainName?.replaceAll('{node}', () => node) ?? defaults.fullyQualifiedDomainName ?? '',
  }
}

const label = /^(?!-)(?:[a-z0-9-]|\{node\})+(?<!-)$/i

function domainName(reader: OptionReader, value: unknown): string {
  const isName =
    typeof value === 'string' &&
    value.length <= 253 &&
    value.split('.').every((part) => label.test(part)) &&
    !/^[\d.]+$/.test(value)
  if (!isName) {
    reader.reject('fullyQualifiedDomainName', 'must be a DNS name such as {node}.example.com, without a port', value)
  }
  return value
}

export interface DirectoryOptions {
  /**
   * Directory that contains the default store and what else the backend keeps. Each fleet needs its own. Default `.gamekeeper` in the
   * working directory.
   */
  readonly directory?: string
  /**
   * How long a start waits for another host that uses the directory, such as the process that a deployment replaces. Its game servers keep
   * running. Default: 0, which rejects with `directory-in-use` at once.
   */
  readonly waitForDirectoryMs?: number
}

export const directoryOptionNames = [
  'directory',
  'waitForDirectoryMs',
] as const satisfies readonly (keyof DirectoryOptions)[]

/** Throws `invalid`, naming the invalid option. */
export function readDirectoryOptions(reader: OptionReader, options: DirectoryOptions): Required<DirectoryOptions> {
  return {
    directory: resolve(reader.string('directory', options.directory, '.gamekeeper')),
    waitForDirectoryMs: reader.integer('waitForDirectoryMs', options.waitForDirectoryMs, 0, 0),
  }
}

export function storeIn({ directory, waitForDirectoryMs }: Required<DirectoryOptions>) {
  return { kind: 'file', directory: join(directory, 'store'), waitForDirectoryMs } as const satisfies DefaultStore
}
