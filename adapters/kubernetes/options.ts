/** Every option of the Kubernetes backend with its default and unit, checked once and frozen. */
import { type Clock, systemClock } from '../../src/contracts/clock.js'
import { type Logger, silentLogger } from '../../src/contracts/logger.js'
import { isNamespace } from '../../src/rules/model/names.js'
import { defaultPortRange, type PortRange } from '../../src/rules/model/ports.js'
import { defaultApiGroup } from '../../src/rules/model/wire.js'
import { OptionReader } from '../shared/option-reader.js'
import { isKubeConfig, type KubeConfigLike } from './client/kube-config.js'
import { type Scheduling, schedulings } from './provisioning/pod-spec.js'

export interface KubernetesBackendOptions {
  /**
   * A `KubeConfig` of @kubernetes/client-node. Default: as for kubectl, KUBECONFIG, else `~/.kube/config`, else the service
   * account of the pod that this runs in.
   */
  readonly kubeConfig?: KubeConfigLike
  /** Namespaces of the fleet's builds and servers. Default: all of the cluster. */
  readonly namespaces?: readonly string[]
  /**
   * Namespace of the leader lease and of the key that encrypts servers' tokens. All hosts of a fleet must have the same, and
   * keep it when `namespaces` changes. Default: the alphabetically first of `namespaces`, or `default`.
   */
  readonly systemNamespace?: string
  /** Group of the custom resources, and prefix of the pods' labels. Default `mps.gamekeeper.com`. */
  readonly apiGroup?: string
  /** Public ports on each node, both ends included: `{ first, last }` or `'10000-12000'`. Default 10000–12000. */
  readonly portRange?: PortRange | string
  /** Where players connect, whatever the node. Default: the node's ExternalIP, or else its InternalIP. */
  readonly publicAddress?: string
  /**
   * `packed`: prefer nodes that run servers already, so that an autoscaler can remove empty nodes. `distributed`: leave the
   * choice to the scheduler. Default `packed`.
   */
  readonly scheduling?: Scheduling
  /**
   * Unique name of this host in the leader lease. A host that restarts under the same name leads again only once its old lease
   * has expired. Default: the host name and a random suffix.
   */
  readonly identity?: string
  /**
   * Name of the pod that this host runs in. It is labelled `<apiGroup>/leader: "true"` while this host leads, for Services to
   * select. Default: no pod is labelled.
   */
  readonly pod?: string
  /** A leader that cannot renew its lease for this long is replaced by another host. At least 2 s. Default 15 s. */
  readonly leaseMs?: number
  /** Most API server calls per second; an allocation takes one. Default 2,000. */
  readonly requestsPerSecond?: number
  /** Most concurrent API server calls, each on a kept connection. Default 64. */
  readonly connections?: number
  /** Timeout of an API server call. Default 20 s. */
  readonly callTimeoutMs?: number
  /** How long a pod may take to be gone beyond its grace period. Default 90 s. */
  readonly deleteTimeoutMs?: number
  /** Default: silent. */
  readonly logger?: Logger
  /** Default: the system clock. */
  readonly clock?: Clock
}

/** Options without a fixed default. */
type Optional = 'kubeConfig' | 'namespaces' | 'systemNamespace' | 'publicAddress' | 'identity' | 'pod'

export type ResolvedKubernetesOptions = Omit<Required<KubernetesBackendOptions>, 'portRange' | Optional> & {
  readonly [name in Optional]: KubernetesBackendOptions[name]
} & { readonly portRange: PortRange }

const reader: OptionReader = new OptionReader('kubernetesBackend')

const optionNames = [
  'kubeConfig',
  'namespaces',
  'systemNamespace',
  'apiGroup',
  'portRange',
  'publicAddress',
  'scheduling',
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

/** Throws `invalid` with the name of the option. */
export function resolveKubernetesOptions(options: KubernetesBackendOptions): ResolvedKubernetesOptions {
  reader.rejectUnknown(options, optionNames)
  const { kubeConfig, systemNamespace, publicAddress, pod } = options
  if (kubeConfig !== undefined && !isKubeConfig(kubeConfig)) {
    reader.reject('kubeConfig', 'must be a KubeConfig of @kubernetes/client-node', typeof kubeConfig)
  }
  if (systemNamespace !== undefined && !isNamespace(systemNamespace))
    reader.reject('systemNamespace', 'must be the name of a namespace', systemNamespace)
  return Object.freeze({
    kubeConfig,
    systemNamespace,
    namespaces: options.namespaces === undefined ? undefined : namespaces(options.namespaces),
    apiGroup: apiGroup(options.apiGroup ?? defaultApiGroup),
    portRange: reader.portRange(options.portRange ?? defaultPortRange),
    publicAddress: publicAddress === undefined ? undefined : reader.host('publicAddress', publicAddress),
    scheduling: scheduling(options.scheduling),
    identity: identity(options.identity),
    pod: pod === undefined ? undefined : podName(pod),
    leaseMs: leaseMs(options.leaseMs ?? 15_000),
    requestsPerSecond: reader.integer('requestsPerSecond', options.requestsPerSecond, 2_000),
    connections: reader.integer('connections', options.connections, 64),
    callTimeoutMs: reader.integer('callTimeoutMs', options.callTimeoutMs, 20_000),
    deleteTimeoutMs: reader.integer('deleteTimeoutMs', options.deleteTimeoutMs, 90_000),
    logger: options.logger ?? silentLogger,
    clock: options.clock ?? systemClock,
  })
}

function namespaces(value: unknown): readonly string[] {
  const must = 'must be a non-empty array of namespace names'
  if (!Array.isArray(value) || value.length === 0) reader.reject('namespaces', must, value)
  return Object.freeze(
    value.map((name: unknown) => {
      if (!isNamespace(name)) reader.reject('namespaces', must, value)
      return name
    }),
  )
}

function apiGroup(value: unknown): string {
  if (typeof value !== 'string' || value.length > 200 || !/^[a-z0-9]([-.a-z0-9]*[a-z0-9])?\.[a-z]+$/.test(value)) {
    reader.reject('apiGroup', 'must be a domain such as mps.gamekeeper.com', value)
  }
  return value
}

function scheduling(value: unknown): Scheduling {
  const found = schedulings.find((one) => one === (value ?? 'packed'))
  return found ?? reader.reject('scheduling', `must be ${schedulings.join(' or ')}`, value)
}

function identity(value: unknown): string | undefined {
  if (value === undefined) return undefined
  if (typeof value !== 'string' || !/^[\w.-]{1,200}$/.test(value)) {
    reader.reject('identity', 'must be 1 to 200 letters, digits, dashes, dots or underscores', value)
  }
  return value
}

function podName(value: unknown): string {
  if (typeof value !== 'string' || value.length > 253 || !/^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$/.test(value)) {
    reader.reject('pod', 'must be the name of a pod', value)
  }
  return value
}

function leaseMs(value: unknown): number {
  const length = reader.integer('leaseMs', value, 0)
  if (length < 2_000) reader.reject('leaseMs', 'must be at least 2000', value)
  return length
}
