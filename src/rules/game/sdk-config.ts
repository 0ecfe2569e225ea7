/**
 * Creates the configuration of the PlayFab GSDK in a game server: a JSON file whose path is in `GSDK_CONFIG_FILE`, and
 * environment variables. Identical on every backend except for paths and ports. Pure.
 */
import type { GameContainer } from '../validation/template.js'

export interface SdkConfigInput {
  readonly heartbeatEndpoint: string
  readonly sessionHostId: string
  readonly buildMetadata: Readonly<Record<string, string>>
  readonly buildID: string
  readonly server: { readonly namespace: string; readonly name: string }
  /** Name of the node or machine that the server runs on. */
  readonly node: string
  /** Address that players connect to. */
  readonly publicAddress: string
  /** The number to listen on and the number that players connect to, in the order of `portsToExpose`. */
  readonly ports: readonly { readonly name: string; readonly listening: number; readonly public: number }[]
  /** Paths of folders as the game server sees them. All three folders must exist. */
  readonly folders: { readonly logs: string; readonly certificates: string; readonly sharedContent: string }
}

/** Returns the name of a port in the SDK: its name in the template's `ports`, or else `port_<containerPort>`. */
export function portName(container: GameContainer, containerPort: number): string {
  const named = container.ports.find((port) => port.containerPort === containerPort && port.name !== undefined)
  return named?.name ?? `port_${containerPort}`
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
    fullyQualifiedDomainName: 'NOT_APPLICABLE',
    gameServerConnectionInfo: {
      ...address,
      gamePortsConfiguration: input.ports.map((port) => ({
        name: port.name,
        serverListeningPort: port.listening,
        clientConnectionPort: port.public,
      })),
    },
    serverInstanceNumber: 0,
  }
}

/**
 * Returns the environment variables except `GSDK_CONFIG_FILE`. Two of the SDKs use the last four if there is no
 * configuration file.
 */
export function sdkEnvironment(input: SdkConfigInput): Record<string, string> {
  return {
    PF_BUILD_ID: input.buildID,
    PF_TITLE_ID: '',
    PF_REGION: '',
    PF_VM_ID: input.node,
    PF_SERVER_LOG_DIRECTORY: input.folders.logs,
    PF_GAMESERVER_NAME: input.server.name,
    PF_GAMESERVER_NAMESPACE: input.server.namespace,
    PUBLIC_IPV4_ADDRESS: input.publicAddress,
    HEARTBEAT_ENDPOINT: input.heartbeatEndpoint,
    SESSION_HOST_ID: input.sessionHostId,
    GSDK_LOG_FOLDER: input.folders.logs,
    SHARED_CONTENT_FOLDER: input.folders.sharedContent,
  }
}
