/** Every option of the Kubernetes backend with its default and unit, checked once and frozen. */
import { type Clock, systemClock } from '../../src/contracts/clock.js'
import { type Logger, silentLogger } from '../../src/contracts/logger.js'
import { OptionReader } from '../shared/option-reader.js'
import { isNamespace } from '../../src/rules/model/names.js'
import { defaultPortRange, type PortRange } from '../../src/rules/model/ports.js'
import { defaultApiGroup } from '../../src/rules/model/wire.js'
import { isKubeConfig, type KubeConfigLike } from './client/kube-config.js'

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
   * have the same, and keep it when `namespaces` changes. Default: the first of `namespaces` in the order of the alphabet, or
   * `default`.
   */
  readonly systemNamespace?: string
  /** Group of the custom resources, and what the labels of pods begin with. Default `mps.gamekeeper.com`. */
  readonly apiGroup?: string
  /** Public ports of each node, both ends included: `{ first, last }` or `'10000-12000'`. Default 10000–12000. */
  readonly portRange?: PortRange | string
  /** Where players connect, whichever the node. Default: the node's ExternalIP, or else its InternalIP. */
  readonly publicAddress?: string
  /** Servers go where others are, so that nodes come to be empty and can be taken away. Default true. */
  readonly packed?: boolean
  /**
   * Names this host, for others to say who leads; one that comes back under its name leads once its old lease has run out. Default:
   * the name of its machine or pod, and something random.
   */
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
  readonly callTimeoutMs?: number
  /** Longest wait for a pod to be gone, beyond its grace period. Default 90 s. */
  readonly deleteTimeoutMs?: number
  /** Default: silent. */
  readonly logger?: Logger
  /** Default: the real one. */
  readonly clock?: Clock
}

type Given = 'kubeConfig' | 'namespaces' | 'systemNamespace' | 'publicAddress' | 'identity' | 'pod'

export type ResolvedKubernetesOptions = Omit<Required<KubernetesBackendOptions>, 'portRange' | Given> & {
  readonly [name in Given]: KubernetesBackendOptions[name]
} & { readonly portRange: PortRange }

const reader: OptionReader = new OptionReader('kubernetesBackend')

const known = [
  'kubeConfig',
  'namespaces',
  'systemNamespace',
  'apiGroup',
  'portRange',
  'publicAddress',
  'packed',
  'identity',
  'pod',
  'leaseMs',
  'requestsPerSecond',
  'connections',
  'callTimeoutMs',
  'deleteTimeoutMs',
  'logger',
  'clock',
] as const satisfies readonly (keyof KubernetesBackendOptions)[]

/** Throws `invalid`, naming the option. */
export function resolveKubernetesOptions(options: KubernetesBackendOptions): ResolvedKubernetesOptions {
  reader.only(options, known)
  const { kubeConfig, systemNamespace, publicAddress, pod } = options
  if (kubeConfig !== undefined && !isKubeConfig(kubeConfig)) {
    reader.refuse('kubeConfig', 'must be a KubeConfig of @kubernetes/client-node', 'something else')
  }
  if (systemNamespace !== undefined && !isNamespace(systemNamespace))
    reader.refuse('systemNamespace', "must be a namespace's name", systemNamespace)
  return Object.freeze({
    kubeConfig,
    systemNamespace,
    namespaces: options.namespaces === undefined ? undefined : namespaces(options.namespaces),
    apiGroup: apiGroup(options.apiGroup ?? defaultApiGroup),
    portRange: reader.portRange(options.portRange ?? defaultPortRange),
    publicAddress: publicAddress === undefined ? undefined : reader.host('publicAddress', publicAddress),
    packed: reader.flag('packed', options.packed, true),
    identity: identity(options.identity),
    pod: pod === undefined ? undefined : podName(pod),
    leaseMs: leaseMs(options.leaseMs ?? 15_000),
    requestsPerSecond: reader.whole('requestsPerSecond', options.requestsPerSecond, 2_000),
    connections: reader.whole('connections', options.connections, 64),
    callTimeoutMs: reader.whole('callTimeoutMs', options.callTimeoutMs, 20_000),
    deleteTimeoutMs: reader.whole('deleteTimeoutMs', options.deleteTimeoutMs, 90_000),
    logger: options.logger ?? silentLogger,
    clock: options.clock ?? systemClock,
  })
}

function namespaces(value: unknown): readonly string[] {
  const must = "must be an array of namespaces' names"
  if (!Array.isArray(value) || value.length === 0) reader.refuse('namespaces', must, value)
  return Object.freeze(
    value.map((name: unknown) => {
      if (!isNamespace(name)) reader.refuse('namespaces', must, value)
      return name
    }),
  )
}

function apiGroup(value: unknown): string {
  if (typeof value !== 'string' || value.length > 200 || !/^[a-z0-9]([-.a-z0-9]*[a-z0-9])?\.[a-z]+$/.test(value)) {
    reader.refuse('apiGroup', 'must be a domain such as mps.gamekeeper.com', value)
  }
  return value
}

function identity(value: unknown): string | undefined {
  if (value === undefined) return undefined
  if (typeof value !== 'string' || !/^[\w.-]{1,200}$/.test(value)) {
    reader.refuse('identity', 'must be 1 to 200 letters, digits, dashes, dots or underscores', value)
  }
  return value
}

function podName(value: unknown): string {
  if (typeof value !== 'string' || value.length > 253 || !/^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$/.test(value)) {
    reader.refuse('pod', "must be a pod's name", value)
  }
  return value
}

function leaseMs(value: unknown): number {
  const length = reader.whole('leaseMs', value, 0)
  if (length < 2_000) reader.refuse('leaseMs', 'must be at least 2000', value)
  return length
}
