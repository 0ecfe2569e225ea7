/** Finds keys of a build's metadata that the PlayFab GSDK clients use for settings of their own. Pure. */
import type { BuildSpec } from '../model/resources.js'
import { gameContainerOf } from '../validation/pod-template.js'
import { portName } from './sdk-config.js'

/**
 * The keys under which the C++, C#, Go, Java, Unity and Unreal clients keep their settings, in the same map as the build's
 * metadata and the ports.
 */
export const gsdkSettings = [
  'buildId',
  'certificateFolder',
  'fullyQualifiedDomainName',
  'gsmsBaseUrl',
  'heartbeatEndpoint',
  'instanceId',
  'IpV4Address',
  'logFolder',
  'publicIpV4Address',
  'region',
  'serverId',
  'sessionCookie',
  'sessionId',
  'sharedContentFolder',
  'titleId',
  'vmId',
] as const

/**
 * Returns the metadata keys that are also settings of a client or names of ports. For such a key, a client returns its own value
 * instead of the build's, and with `sessionId` and `sessionCookie` Unity's client throws when the server is allocated. Ignores
 * case, because the clients of Unity and Unreal do.
 */
export function reservedMetadataKeys({
  buildMetadata = {},
  portsToExpose,
  template,
}: Pick<BuildSpec, 'buildMetadata' | 'portsToExpose' | 'template'>): readonly string[] {
  const container = gameContainerOf(template)
  const ports = portsToExpose.map((port) => portName(container, port))
  const reserved = new Set([...gsdkSettings, ...ports].map((key) => key.toLowerCase()))
  return Object.keys(buildMetadata).filter((key) => reserved.has(key.toLowerCase()))
}
