/** The folders, volumes and secret keys that pass the SDK configuration to a pod's containers. Pure. */
import type { GameFolders } from '../../../src/rules/game/sdk-config.js'
import { isObject } from '../../../src/rules/validation/problem.js'
import { objectAt, objectsAt, stringAt } from '../../../src/rules/validation/template-shape.js'

const root = '/gamekeeper'
const configFolder = `${root}/config`

export const configFile = 'gsdkConfig.json'
export const configPath = `${configFolder}/${configFile}`

export const folders: GameFolders = Object.freeze({
  logs: `${root}/GameLogs`,
  dumps: `${root}/GameLogs/Dumps`,
  certificates: `${root}/GameCertificates`,
  sharedContent: `${root}/GameSharedContent`,
})

/**
 * Environment variables read from the secret, with their keys in it. They are confidential, or known only after the pod is
 * scheduled.
 */
export const secretKeys: Readonly<Record<string, keyof SecretValues>> = {
  SESSION_HOST_ID: 'sessionHostId',
  PUBLIC_IPV4_ADDRESS: 'publicAddress',
  PF_PUBLIC_IPV4_ADDRESS: 'publicAddress',
  PF_SERVER_INSTANCE_NUMBER: 'instanceNumber',
  PF_REGION: 'region',
  PF_FQDN: 'fullyQualifiedDomainName',
}

/** What the secret contains besides the configuration file. */
export interface SecretValues {
  readonly sessionHostId: string
  readonly publicAddress: string
  readonly instanceNumber: string
  readonly region: string
  readonly fullyQualifiedDomainName: string
}

const volumeNames = {
  config: 'gamekeeper-config',
  logs: 'gamekeeper-logs',
  /** Mounted inside the log folder. */
  dumps: 'gamekeeper-dumps',
  certificates: 'gamekeeper-certificates',
  sharedContent: 'gamekeeper-content',
} as const

const mount = (name: string, mountPath: string) => ({ name, mountPath })

export const sdkMounts = [
  { ...mount(volumeNames.config, configFolder), readOnly: true },
  mount(volumeNames.logs, folders.logs),
  mount(volumeNames.dumps, folders.dumps),
  mount(volumeNames.certificates, folders.certificates),
  mount(volumeNames.sharedContent, folders.sharedContent),
] as const

export function sdkVolumes(secretName: string): readonly object[] {
  const empty = [volumeNames.logs, volumeNames.dumps, volumeNames.certificates, volumeNames.sharedContent]
  return [{ name: volumeNames.config, secret: { secretName } }, ...empty.map((name) => ({ name, emptyDir: {} }))]
}

/** Name of the SDK secret that the pod mounts. */
export function secretNameOf(pod: unknown): string | undefined {
  const volume = objectsAt(objectAt(isObject(pod) ? pod : {}, 'spec'), 'volumes').find(
    ({ name }) => name === volumeNames.config,
  )
  return volume && stringAt(objectAt(volume, 'secret'), 'secretName')
}
