/** The options with which all backends tell games where they run, and their validation. */
import type { Platform } from '../../src/rules/game/sdk-config.js'
import type { OptionReader } from './option-reader.js'

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
