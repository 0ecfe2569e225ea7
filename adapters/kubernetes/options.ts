/** Every option of the Kubernetes backend with its default and unit, checked once and frozen. */
import { isIP } from 'node:net'
import { type Clock, systemClock } from '../../src/clock.js'
import { FleetError } from '../../src/errors.js'
import { type Logger, silentLogger } from '../../src/logger.js'
import { isNamespace } from '../../src/rules/names.js'
import { defaultPortRange, isPort, type PortRange, readPortRange } from '../../src/rules/ports.js'
import { isObject, shown } from '../../src/rules/problem.js'
import { defaultApiGroup } from '../../src/rules/wire.js'
import { isKubeConfig, type KubeConfigLike } from './kube-config.js'

export interface KubernetesBackendOptions {
  /**
   * A `KubeConfig` of @kubernetes/client-node. Default: as `kubectl` finds its cluster, KUBECONFIG, else `~/.kube/config`; in a
   * pod without either, its service account.
   */
  readonly kubeConfig?: KubeConfigLike
  /** Namespaces that the fleet is in. Default: all of the cluster. */
  readonly namespaces?: readonly string[]
  /**
   * Namespace of what is the fleet's own: the key that servers' tokens are sealed with, and the lease. All hosts of a fleet must
   * have the same. Default: the first of `namespaces` in the order of the alphabet, or `default`.
   */
  readonly home?: string
  /** Group of the custom resources, and what the labels of pods begin with. Default `mps.gamekeeper.com`. */
  readonly apiGroup?: string
  /** Public ports of each node, both ends included: `{ first, last }` or `'10000-12000'`. Default 10000–12000. */
  readonly portRange?: PortRange | string
  /** Where players connect, whichever the node. Default: the node's ExternalIP, or else its InternalIP. */
  readonly publicAddress?: string
  /** Servers go where others are, so that nodes come to be empty and can be taken away. Default true. */
  readonly packed?: boolean
  /** Names this host, for others to say who leads. Default: the name of its machine or pod, and something random. */
  readonly identity?: string
  /**
   * Name of the pod that this host runs in: it has the label `<apiGroup>/leader: "true"` while this host leads, for Services to
   * select. Default: none is labelled.
   */
  readonly pod?: string
  /** A leader that could not renew its lease for so long leads no more, and another host takes over. At least 2 s. Default 15 s. */
  readonly leaseMs?: number
  /** Most calls of the API server a second; an allocation is one. Default 2,000. */
  readonly requestsPerSecond?: number
  /** Most calls of the API server at once, each on a connection that is kept. Default 64. */
  readonly connections?: number
  /** Longest wait for an answer of the API server. Default 20 s. */
  readonly callMs?: number
  /** Longest wait for a pod to be gone, beyond its grace period. Default 90 s. */
  readonly endMs?: number
  /** Default: silent. */
  readonly logger?: Logger
  /** Default: the real one. */
  readonly clock?: Clock
}

type Given = 'kubeConfig' | 'namespaces' | 'home' | 'publicAddress' | 'identity' | 'pod'

export type ResolvedKubernetesOptions = Omit<Required<KubernetesBackendOptions>, 'portRange' | Given> & {
  readonly [name in Given]: KubernetesBackendOptions[name]
} & { readonly portRange: PortRange }

const known: ReadonlySet<string> = new Set([
  'kubeConfig',
  'namespaces',
  'home',
  'apiGroup',
  'portRange',
  'publicAddress',
  'packed',
  'identity',
  'pod',
  'leaseMs',
  'requestsPerSecond',
  'connections',
  'callMs',
  'endMs',
  'logger',
  'clock',
] satisfies (keyof KubernetesBackendOptions)[])

/** Throws `invalid`, naming the option. */
export function resolveKubernetesOptions(options: KubernetesBackendOptions): ResolvedKubernetesOptions {
  for (const name of Object.keys(options)) {
    if (!known.has(name)) {
      throw new FleetError('invalid', `kubernetesBackend: ${name} is not an option; known are ${[...known].join(', ')}`)
    }
  }
  const { kubeConfig, home, publicAddress, pod } = options
  if (kubeConfig !== undefined && !isKubeConfig(kubeConfig)) {
    refuse('kubeConfig', 'must be a KubeConfig of @kubernetes/client-node', 'something else')
  }
  if (home !== undefined && !isNamespace(home)) refuse('home', "must be a namespace's name", home)
  return Object.freeze({
    kubeConfig,
    home,
    namespaces: options.namespaces === undefined ? undefined : namespaces(options.namespaces),
    apiGroup: apiGroup(options.apiGroup ?? defaultApiGroup),
    portRange: portRange(options.portRange ?? defaultPortRange),
    publicAddress: publicAddress === undefined ? undefined : host('publicAddress', publicAddress),
    packed: flag('packed', options.packed, true),
    identity: identity(options.identity),
    pod: pod === undefined ? undefined : podName(pod),
    leaseMs: leaseMs(options.leaseMs ?? 15_000),
    requestsPerSecond: whole('requestsPerSecond', options.requestsPerSecond, 2_000),
    connections: whole('connections', options.connections, 64),
    callMs: whole('callMs', options.callMs, 20_000),
    endMs: whole('endMs', options.endMs, 90_000),
    logger: options.logger ?? silentLogger,
    clock: options.clock ?? systemClock,
  })
}

function namespaces(value: unknown): readonly string[] {
  const must = "must be an array of namespaces' names"
  if (!Array.isArray(value) || value.length === 0) refuse('namespaces', must, value)
  return Object.freeze(
    value.map((name: unknown) => {
      if (!isNamespace(name)) refuse('namespaces', must, value)
      return name
    }),
  )
}

function apiGroup(value: unknown): string {
  if (typeof value !== 'string' || value.length > 200 || !/^[a-z0-9]([-.a-z0-9]*[a-z0-9])?\.[a-z]+$/.test(value)) {
    refuse('apiGroup', 'must be a domain such as mps.gamekeeper.com', value)
  }
  return value
}

const hostPart = /^(?!-)[a-z0-9_-]{1,63}(?<!-)$/i

function host(name: string, value: unknown): string {
  const isHost =
    typeof value === 'string' && value.length <= 253 && value.split('.').every((part) => hostPart.test(part))
  // Four numbers that are no address are no name either.
  const isName = isHost && !/^[\d.]+$/.test(value)
  if (typeof value !== 'string' || (isIP(value) === 0 && !isName)) {
    refuse(name, 'must be a host name or an IP address, without http:// and without a port', value)
  }
  return value
}

function whole(name: string, value: unknown, fallback: number): number {
  if (value === undefined) return fallback
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < 1) {
    refuse(name, 'must be an integer ≥ 1', value)
  }
  return value
}

function identity(value: unknown): string | undefined {
  if (value === undefined) return undefined
  if (typeof value !== 'string' || !/^[\w.-]{1,200}$/.test(value)) {
    refuse('identity', 'must be 1 to 200 letters, digits, dashes, dots or underscores', value)
  }
  return value
}

function podName(value: unknown): string {
  if (typeof value !== 'string' || value.length > 253 || !/^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$/.test(value)) {
    refuse('pod', "must be a pod's name", value)
  }
  return value
}

function leaseMs(value: unknown): number {
  const length = whole('leaseMs', value, 0)
  if (length < 2_000) refuse('leaseMs', 'must be at least 2000', value)
  return length
}

function flag(name: string, value: unknown, fallback: boolean): boolean {
  if (value === undefined) return fallback
  if (typeof value !== 'boolean') refuse(name, 'must be true or false', value)
  return value
}

function portRange(value: unknown): PortRange {
  if (typeof value === 'string') {
    const read = readPortRange(value, 'portRange')
    if (!read.ok) throw new FleetError('invalid', `kubernetesBackend: portRange ${read.problem.message}`)
    return Object.freeze(read.value)
  }
  const first: unknown = isObject(value) ? value['first'] : undefined
  const last: unknown = isObject(value) ? value['last'] : undefined
  if (!isPort(first) || !isPort(last) || first > last) {
    refuse('portRange', 'must be { first, last } with ports from 1 to 65535, lower first', value)
  }
  return Object.freeze({ first, last })
}

function refuse(name: string, must: string, value: unknown): never {
  throw new FleetError('invalid', `kubernetesBackend: ${name} ${must}, but is ${shown(value)}`)
}
