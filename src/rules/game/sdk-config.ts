/**
 * The configuration of the PlayFab GSDK in a game server: a JSON file named by `GSDK_CONFIG_FILE`, and environment
 * variables. The same on every backend except for paths and ports. Pure.
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
  /** In the order of `portsToExpose`: the number to listen on, and the number that players connect to. */
  readonly ports: readonly { readonly name: string; readonly listening: number; readonly public: number }[]
  /** Folders as the game server sees them; all three must exist. */
  readonly folders: { readonly logs: string; readonly certificates: string; readonly sharedContent: string }
}

/** Name of a port in the SDK: as in the template's `ports`, else `port_<containerPort>`. */
export function portName(container: GameContainer, containerPort: number): string {
  const named = container.ports.find((port) => port.containerPort === containerPort && port.name !== undefined)
  return named?.name ?? `port_${containerPort}`
}

/** The content of the configuration file. Clients differ in how they spell the public address. */
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

/** The environment without `GSDK_CONFIG_FILE`. The last four are fallbacks of two SDKs when there is no file. */
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
