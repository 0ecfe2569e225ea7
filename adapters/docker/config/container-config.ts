/**
 * Converts a pod template to the body of the engine's `create` call, and rejects settings that Docker does not support. Pure.
 */
import type { InstanceSpec } from '../../../src/contracts/backend.js'
import { FleetError } from '../../../src/contracts/errors.js'
import { declaredEnvironment } from '../../../src/rules/game/environment.js'
import { portName, type SdkConfigInput } from '../../../src/rules/game/sdk-config.js'
import { shown } from '../../../src/rules/validation/problem.js'
import { type GameContainer, gameContainerOf } from '../../../src/rules/validation/template.js'
import { readImageName } from '../../shared/image-name.js'
import { platformOn } from '../../shared/platform-options.js'
import { quantityOf } from '../../shared/quantity.js'
import { type Identity, labelsOf } from '../containers/labels.js'
import { isPullPolicy, pullPolicies, type PullPolicy, type ResolvedDockerOptions } from '../options.js'
import { sdkConfigPath, sdkFolders } from './sdk-files.js'

/** The host name by which containers reach the machine they run on. */
export const hostName = 'host.docker.internal'

export interface Engine {
  /** Name of the machine that the engine runs on. */
  readonly node: string
  /** The engine's default log driver. */
  readonly logDriver: string
}

export interface ContainerConfigInput {
  readonly spec: InstanceSpec
  readonly identity: Identity
  readonly fleet: string
  readonly engine: Engine
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

function logConfig({ logDriver }: Engine, { log }: ResolvedDockerOptions): object {
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
