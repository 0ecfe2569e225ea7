/**
 * Creates the configuration of the PlayFab GSDK in a game server: a JSON file whose path is in `GSDK_CONFIG_FILE`, and
 * environment variables. Identical on every backend except for paths and ports. Pure.
 */
import { defaultPortName } from '../model/ports.js'
import type { PortPair } from '../model/resources.js'
import { sizeLimits } from '../model/sizes.js'
import type { GameContainer } from '../validation/pod-template.js'

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

// Computes the environment variables of a game and expands `$(NAME)` in its command line. For backends that start the game
// themselves instead of passing on the template.

interface DeclaredEnvironmentInput {
  readonly container: GameContainer
  readonly sdk: SdkConfigInput
  readonly sdkConfigPath: string
  /** The number that the game listens on for each container port. */
  readonly listening: readonly { readonly container: PortPair['container']; readonly number: number }[]
}

interface DeclaredEnvironment {
  /** Excludes variables inherited from the machine or the image. */
  readonly declared: ReadonlyMap<string, string>
  /** Replaces `$(NAME)` as Kubernetes does, using declared variables only. */
  readonly expand: (text: string) => string
}

/**
 * `PORT_<containerPort>` variables override the SDK's variables, which override the template's. A variable that the SDK
 * leaves empty, such as `PF_TITLE_ID`, does not override the template's.
 */
export function declaredEnvironment(input: DeclaredEnvironmentInput): DeclaredEnvironment {
  const predefined = new Map<string, string>(Object.entries(sdkEnvironment(input.sdk)))
  predefined.set('GSDK_CONFIG_FILE', input.sdkConfigPath)
  for (const { container, number } of input.listening) predefined.set(`PORT_${container}`, String(number))

  const declared = new Map(predefined)
  for (const { name, value } of input.container.env) {
    const expanded = expandVariables(value, declared, sizeLimits.environmentValueBytes)
    if (!predefined.get(name)) declared.set(name, expanded)
  }
  return { declared, expand: (text) => expandVariables(text, declared) }
}

/** A part of a text that may contain references. */
interface Part {
  /** The text as written, with `$$` replaced. */
  readonly text: string
  /** The name in a reference. */
  readonly name?: string
}

/** Splits a text into literal parts and references, in time in proportion to its length. */
export function partsOf(text: string): readonly Part[] {
  const parts: Part[] = []
  let start = 0
  /** False once no further reference can be closed, so that each unclosed one does not search the rest of the text. */
  let canClose = true
  for (let at = text.indexOf('$'); at >= 0; at = text.indexOf('$', at)) {
    const next = text[at + 1]
    const end = next === '(' && canClose ? text.indexOf(')', at + 2) : -1
    if (next === '$') {
      parts.push({ text: text.slice(start, at + 1) })
      at += 2
      start = at
    } else if (end >= 0) {
      parts.push({ text: text.slice(start, at) }, { text: text.slice(at, end + 1), name: text.slice(at + 2, end) })
      at = end + 1
      start = at
    } else {
      if (next === '(') canClose = false
      at += 1
    }
  }
  parts.push({ text: text.slice(start) })
  return parts
}

/**
 * Replaces `$(NAME)` with its value if `values` contains the name, and `$$` with `$`. A reference whose value would make the
 * result longer than `maxLength` characters also stays as it is.
 */
export function expandVariables(
  text: string,
  values: ReadonlyMap<string, string>,
  maxLength: number = sizeLimits.argumentBytes,
): string {
  let expanded = ''
  for (const part of partsOf(text)) {
    const value = part.name === undefined ? undefined : values.get(part.name)
    expanded += value === undefined || expanded.length + value.length > maxLength ? part.text : value
  }
  return expanded
}

/** Returns the lowest number from 0 that is not in `held`. */
export function lowestFreeNumber(held: Iterable<number>): number {
  const taken = new Set(held)
  let number = 0
  while (taken.has(number)) number++
  return number
}

/** Reads a number from a record, label or annotation. Returns undefined unless it is an integer ≥ 0. */
export function readInstanceNumber(value: unknown): number | undefined {
  const number = typeof value === 'string' && /^\d{1,9}$/.test(value) ? Number(value) : value
  return typeof number === 'number' && Number.isSafeInteger(number) && number >= 0 ? number : undefined
}
