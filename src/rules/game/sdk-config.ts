/**
 * Creates the configuration of the PlayFab GSDK in a game server: a JSON file whose path is in `GSDK_CONFIG_FILE`, and
 * environment variables. Identical on every backend except for paths and ports. Pure.
 */
import { defaultPortName } from '../model/named-ports.js'
import type { GameContainer } from '../validation/template.js'

export interface SdkConfigInput {
  readonly heartbeatEndpoint: string
  readonly sessionHostId: string
  readonly buildMetadata: Readonly<Record<string, string>>
  readonly buildID: string
  readonly server: { readonly namespace: string; readonly name: string }
  /** Name of the node or machine that the server runs on. */
  readonly node: string
  /** The server's number on its machine: from 0, unique among the fleet's servers there. */
  readonly instanceNumber: number
  readonly platform: Platform
  /** Address that players connect to. */
  readonly publicAddress: string
  /** The number to listen on and the number that players connect to, in the order of `portsToExpose`. */
  readonly ports: readonly { readonly name: string; readonly listening: number; readonly public: number }[]
  readonly folders: GameFolders
}

/** What the operator or the node knows about where a server runs. An empty string means unknown. */
export interface Platform {
  readonly titleId: string
  readonly region: string
  /** Public DNS name of the server's machine. */
  readonly fullyQualifiedDomainName: string
}

/** Paths of a server's own folders as the game sees them. All of them must exist. */
export interface GameFolders {
  readonly logs: string
  /** For crash dumps: a subfolder of `logs`. */
  readonly dumps: string
  readonly certificates: string
  readonly sharedContent: string
}

/** Returns the name of a port in the SDK: its name in the template's `ports`, or else `port_<containerPort>`. */
export function portName(container: GameContainer, containerPort: number): string {
  const named = container.ports.find((port) => port.containerPort === containerPort && port.name !== undefined)
  return named?.name ?? defaultPortName(containerPort)
}

/**
 * Returns the content of the configuration file. Contains the public address under several keys, because SDKs spell the key
 * differently.
 */
export function sdkConfigFile(input: SdkConfigInput): Record<string, unknown> {
  const address = {
    publicIpV4Address: input.publicAddress,
    publicIpV4Adress: input.publicAddress,
    IpV4Address: input.publicAddress,
  }
  return {
    heartbeatEndpoint: input.heartbeatEndpoint,
    sessionHostId: input.sessionHostId,
    vmId: input.node,
    logFolder: input.folders.logs,
    certificateFolder: input.folders.certificates,
    sharedContentFolder: input.folders.sharedContent,
    buildMetadata: input.buildMetadata,
    gamePorts: Object.fromEntries(input.ports.map((port) => [port.name, String(port.listening)])),
    gameCertificates: {},
    ...address,
    fullyQualifiedDomainName: input.platform.fullyQualifiedDomainName || 'NOT_APPLICABLE',
    gameServerConnectionInfo: {
      ...address,
      gamePortsConfiguration: input.ports.map((port) => ({
        name: port.name,
        serverListeningPort: port.listening,
        clientConnectionPort: port.public,
      })),
    },
    serverInstanceNumber: input.instanceNumber,
  }
}

/**
 * Returns the environment variables except `GSDK_CONFIG_FILE`. Two of the SDKs use the last four if there is no
 * configuration file.
 */
export function sdkEnvironment(input: SdkConfigInput): Record<string, string> {
  return {
    PF_BUILD_ID: input.buildID,
    PF_TITLE_ID: input.platform.titleId,
    PF_REGION: input.platform.region,
    PF_VM_ID: input.node,
    PF_FQDN: input.platform.fullyQualifiedDomainName,
    PF_PUBLIC_IPV4_ADDRESS: input.publicAddress,
    PF_SERVER_INSTANCE_NUMBER: String(input.instanceNumber),
    PF_SERVER_LOG_DIRECTORY: input.folders.logs,
    PF_SERVER_DUMP_DIRECTORY: input.folders.dumps,
    PF_SHARED_CONTENT_FOLDER: input.folders.sharedContent,
    CERTIFICATE_FOLDER: input.folders.certificates,
    PF_GAMESERVER_NAME: input.server.name,
    PF_GAMESERVER_NAMESPACE: input.server.namespace,
    PUBLIC_IPV4_ADDRESS: input.publicAddress,
    HEARTBEAT_ENDPOINT: input.heartbeatEndpoint,
    SESSION_HOST_ID: input.sessionHostId,
    GSDK_LOG_FOLDER: input.folders.logs,
    SHARED_CONTENT_FOLDER: input.folders.sharedContent,
  }
}

/** Names of the variables that the SDK sets, besides `PORT_<containerPort>`. */
export const sdkVariables: ReadonlySet<string> = new Set([
  'GSDK_CONFIG_FILE',
  ...Object.keys(
    sdkEnvironment({
      heartbeatEndpoint: '',
      sessionHostId: '',
      buildMetadata: {},
      buildID: '',
      publicAddress: '',
      ports: [],
      server: { namespace: '', name: '' },
      node: '',
      instanceNumber: 0,
      platform: { titleId: '', region: '', fullyQualifiedDomainName: '' },
      folders: { logs: '', dumps: '', certificates: '', sharedContent: '' },
    }),
  ),
])
