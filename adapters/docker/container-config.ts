/**
 * Converts a pod template to the body of the engine's `create` call, and rejects settings that Docker does not support. Pure.
 */
import type { InstanceSpec } from '../../src/contracts/backend.js'
import { FleetError } from '../../src/contracts/errors.js'
import { declaredEnvironment, portName, sdkConfigFile, type SdkConfigInput } from '../../src/rules/game/sdk-config.js'
import { type GameContainer, gameContainerOf } from '../../src/rules/validation/pod-template.js'
import { shown } from '../../src/rules/validation/problem.js'
import { platformOn } from '../shared/option-reader.js'
import { quantityOf } from '../../src/rules/model/quantity.js'
import { readImageName } from '../shared/image-name.js'
import { type Identity, labelsOf } from './containers/labels.js'
import { isPullPolicy, pullPolicies, type PullPolicy, type ResolvedDockerOptions } from './options.js'

/** The host name by which containers reach the machine they run on. */
export const hostName = 'host.docker.internal'

export interface DockerEngine {
  /** Name of the machine that the engine runs on. */
  readonly node: string
  /** The engine's default log driver. */
  readonly logDriver: string
}

interface ContainerConfigInput {
  readonly spec: InstanceSpec
  readonly identity: Identity
  readonly fleet: string
  readonly engine: DockerEngine
  readonly options: ResolvedDockerOptions
}

export interface ContainerConfig {
  readonly image: string
  readonly pullPolicy: PullPolicy
  /** Body of the engine's `create` call. */
  readonly body: object
  readonly sdk: SdkConfigInput
}

/** Throws `invalid`, naming the field. Checks only what the validation shared by all backends does not. */
export function checkForDocker({ template }: Pick<InstanceSpec, 'template'>): void {
  const { image = '', imagePullPolicy, workingDir, ports, limits } = gameContainerOf(template)
  const at = 'spec.template.spec.containers[0]'
  const reject = (field: string, must: string, found: unknown) => {
    throw new FleetError('invalid', `${at}.${field} ${must}, but is ${shown(found)}`)
  }
  if (!readImageName(image)) reject('image', 'must be an image name such as arena:1 or ghcr.io/studio/arena:1', image)
  if (imagePullPolicy !== undefined && !isPullPolicy(imagePullPolicy)) {
    reject('imagePullPolicy', `must be one of ${pullPolicies.join(', ')}`, imagePullPolicy)
  }
  if (workingDir !== undefined && !workingDir.startsWith('/')) {
    reject('workingDir', 'must be an absolute path inside the container', workingDir)
  }
  const sctp = ports.findIndex(({ protocol }) => protocol === 'SCTP')
  if (sctp >= 0) reject(`ports[${sctp}].protocol`, 'must be TCP or UDP, which share one public port', 'SCTP')
  const { memory, cpu } = limits
  if (memory !== undefined && !(quantityOf(memory) >= minMemoryBytes)) {
    reject('resources.limits.memory', 'must be at least 6Mi, the minimum of Docker', memory)
  }
  if (memory !== undefined && quantityOf(memory) > Number.MAX_SAFE_INTEGER) {
    reject('resources.limits.memory', 'must be less than 8Pi', memory)
  }
  if (cpu !== undefined && !(quantityOf(cpu) >= minCpus)) {
    reject('resources.limits.cpu', 'must be at least 10m, the minimum of Docker', cpu)
  }
}

const minMemoryBytes = 6 * 2 ** 20
const minCpus = 0.01

export function containerConfig(input: ContainerConfigInput): ContainerConfig {
  const { spec, identity, fleet, options } = input
  const container = gameContainerOf(spec.template)
  const sdk = sdkOf(input, container)
  const { declared, expand } = declaredEnvironment({
    container,
    sdk,
    sdkConfigPath,
    listening: spec.portsToExpose.map((port) => ({ container: port, number: port })),
  })
  const { image = '', command, args, workingDir, stdin, tty } = container
  const labels = { ...options.labels, ...labelsOf(fleet, spec.build.name, identity) }
  const keys = identity.ports.flatMap((port) =>
    protocols.map((protocol) => [`${port.container}/${protocol}`, port] as const),
  )
  const body = {
    Image: image,
    // If the template sets a command without args, the image's args must not be used: they belong to the image's own command.
    ...(command.length > 0 && { Entrypoint: command.map(expand) }),
    ...(args.length > 0 && { Cmd: args.map(expand) }),
    ...(workingDir !== undefined && { WorkingDir: workingDir }),
    ...(stdin && { OpenStdin: true }),
    ...(tty && { Tty: true }),
    Env: [...declared].map(([name, value]) => `${name}=${value}`),
    Labels: labels,
    ExposedPorts: Object.fromEntries(keys.map(([key]) => [key, {}])),
    HostConfig: hostConfig(input, container, keys),
  }
  return { ...imageOf(spec.template, options), body, sdk }
}

export function imageOf(
  template: InstanceSpec['template'],
  options: Pick<ResolvedDockerOptions, 'pullPolicy'>,
): Pick<ContainerConfig, 'image' | 'pullPolicy'> {
  const { image = '', imagePullPolicy } = gameContainerOf(template)
  return { image, pullPolicy: isPullPolicy(imagePullPolicy) ? imagePullPolicy : options.pullPolicy }
}

/** Each exposed port is published for both protocols, because `portsToExpose` does not specify one. */
const protocols = ['tcp', 'udp'] as const

function hostConfig(
  { spec, engine, options }: ContainerConfigInput,
  { limits }: GameContainer,
  keys: readonly (readonly [string, { readonly public: number }])[],
): object {
  const { bindAddress, networks, capabilities, noNewPrivileges, pidsLimit, init } = options
  const { memory, cpu } = limits
  const bytes = memory === undefined ? 0 : Math.floor(quantityOf(memory))
  const reachesHost = spec.sdk.heartbeatEndpoint.startsWith(`${hostName}:`)
  return {
    // The fleet itself replaces servers, and it needs the exit code of the exited container.
    RestartPolicy: { Name: 'no' },
    AutoRemove: false,
    Init: init,
    PortBindings: Object.fromEntries(
      keys.map(([key, port]) => [key, [{ HostIp: bindAddress, HostPort: String(port.public) }]]),
    ),
    ...(reachesHost && { ExtraHosts: [`${hostName}:host-gateway`] }),
    ...(networks[0] !== undefined && { NetworkMode: networks[0] }),
    ...containerCapabilities(capabilities),
    ...(noNewPrivileges && { SecurityOpt: ['no-new-privileges'] }),
    PidsLimit: pidsLimit,
    ...logConfig(engine, options),
    // Disables swap, as on Kubernetes.
    ...(memory !== undefined && { Memory: bytes, MemorySwap: bytes }),
    ...(cpu !== undefined && { NanoCpus: Math.round(quantityOf(cpu) * 1e9) }),
  }
}

function logConfig({ logDriver }: DockerEngine, { log }: ResolvedDockerOptions): object {
  if (log) return { LogConfig: { Type: log.driver, Config: log.options ?? {} } }
  if (logDriver !== 'json-file' && logDriver !== 'local') return {}
  return { LogConfig: { Type: logDriver, Config: { 'max-size': '10m', 'max-file': '2' } } }
}

function sdkOf({ spec, identity, engine, options }: ContainerConfigInput, container: GameContainer): SdkConfigInput {
  return {
    ...spec.sdk,
    buildID: spec.build.buildID,
    server: spec.ref,
    node: engine.node,
    instanceNumber: identity.instanceNumber,
    platform: platformOn(engine.node, options.platform),
    publicAddress: identity.address,
    ports: identity.ports.map((port) => ({
      name: portName(container, port.container),
      listening: port.container,
      public: port.public,
    })),
    folders: sdkFolders,
  }
}

/**
 * The part of Docker's default capabilities that games and their entry points use when they run as root: changing the owner
 * of files, reading and writing files of any owner, signalling, ports below 1024, and switching to another user. The rest
 * of Docker's defaults, such as NET_RAW and MKNOD, is dropped.
 */
export const keptCapabilities: readonly string[] = Object.freeze([
  'CHOWN',
  'DAC_OVERRIDE',
  'FOWNER',
  'KILL',
  'NET_BIND_SERVICE',
  'SETGID',
  'SETUID',
])

interface CapabilityOptions {
  readonly add: readonly string[]
  readonly drop: readonly string[]
}

/** The fields of the engine's `HostConfig`. `add` takes precedence over `drop`; `ALL` means every capability. */
export function containerCapabilities(options: CapabilityOptions): {
  readonly CapAdd: string[]
  readonly CapDrop: string[]
} {
  const [add, drop] = [options.add.map(plainName), options.drop.map(plainName)]
  // The engine then drops the named ones from all.
  if (add.includes('ALL')) return { CapAdd: ['ALL'], CapDrop: drop.filter((name) => name !== 'ALL') }
  const kept = drop.includes('ALL') ? [] : keptCapabilities.filter((name) => !drop.includes(name))
  return { CapAdd: [...new Set([...kept, ...add])], CapDrop: ['ALL'] }
}

/** The engine accepts `net_raw`, `NET_RAW` and `CAP_NET_RAW`. */
function plainName(name: string): string {
  return name.toUpperCase().replace(/^CAP_/, '')
}

// The paths of the SDK configuration inside the container, and the archive that copies it there.

const rootFolder = 'gamekeeper'

const sdkConfigPath = `/${rootFolder}/gsdkConfig.json`

const sdkFolders: SdkConfigInput['folders'] = Object.freeze({
  logs: `/${rootFolder}/GameLogs`,
  dumps: `/${rootFolder}/GameLogs/Dumps`,
  certificates: `/${rootFolder}/GameCertificates`,
  sharedContent: `/${rootFolder}/GameSharedContent`,
})

/**
 * Files are readable by every user, because the image decides which user runs the game. Folders that games write to are
 * writable.
 */
export function sdkArchive(sdk: SdkConfigInput, nowMs: number): Buffer {
  const folder = (path: string, mode: number) => ({ name: `${path.slice(1)}/`, mode })
  return tarOf(
    [
      folder(`/${rootFolder}`, 0o755),
      folder(sdkFolders.logs, 0o777),
      folder(sdkFolders.dumps, 0o777),
      folder(sdkFolders.certificates, 0o755),
      folder(sdkFolders.sharedContent, 0o777),
      { name: sdkConfigPath.slice(1), mode: 0o644, content: JSON.stringify(sdkConfigFile(sdk), undefined, 2) },
    ],
    nowMs,
  )
}

interface TarEntry {
  /** At most 100 bytes. A folder's name ends with a slash. */
  readonly name: string
  readonly mode: number
  /** Set only for files. */
  readonly content?: string
}

const blockBytes = 512

/** A small tar archive (ustar), only of files and folders with short names. */
export function tarOf(entries: readonly TarEntry[], modifiedAtMs: number): Buffer {
  const blocks = entries.flatMap(({ name, mode, content }) => {
    const bytes = Buffer.from(content ?? '')
    const padding = Buffer.alloc((blockBytes - (bytes.length % blockBytes)) % blockBytes)
    return [header(name, mode, bytes.length, Math.floor(modifiedAtMs / 1000)), bytes, padding]
  })
  // Two empty blocks end the archive.
  return Buffer.concat([...blocks, Buffer.alloc(2 * blockBytes)])
}

function header(name: string, mode: number, size: number, modifiedAt: number): Buffer {
  if (Buffer.byteLength(name) > 100) throw new RangeError(`file name too long for a tar archive: ${name}`)
  const block = Buffer.alloc(blockBytes)
  const octal = (value: number, at: number, length: number) =>
    void block.write(`${value.toString(8).padStart(length - 1, '0')}\0`, at, 'latin1')
  block.write(name, 0, 'utf8')
  octal(mode, 100, 8)
  octal(0, 108, 8) // owner: root
  octal(0, 116, 8) // group: root
  octal(size, 124, 12)
  octal(modifiedAt, 136, 12)
  block.write('        ', 148, 'latin1') // the checksum field counts as spaces
  block.write(name.endsWith('/') ? '5' : '0', 156, 'latin1')
  block.write('ustar\x0000', 257, 'latin1')
  const sum = block.reduce((total, byte) => total + byte, 0)
  block.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1')
  return block
}
