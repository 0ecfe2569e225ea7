/** All options of the Kubernetes backend with their defaults and units. Validated once, then frozen. */
import { type Clock, systemClock } from '../../src/contracts/clock.js'
import { type Logger, loggerOf } from '../../src/contracts/logger.js'
import { isNamespace } from '../../src/rules/model/names.js'
import { defaultPortRange, type PortRange } from '../../src/rules/model/ports.js'
import { defaultApiGroup } from '../../src/rules/model/wire.js'
import {
  OptionReader,
  platformOptionNames,
  type PlatformOptions,
  readPlatformOptions,
} from '../shared/option-reader.js'
import { keptLogsOptionNames, type KeptLogsOptions, readKeptLogsOptions } from '../shared/kept-logs.js'
import { isKubeConfig, type KubeConfigLike } from './client/kube-config.js'
import { type Scheduling, schedulings } from './provisioning/pod-spec.js'

export interface KubernetesBackendOptions extends PlatformOptions, KeptLogsOptions {
  /**
   * A `KubeConfig` from @kubernetes/client-node. Default: the configuration kubectl would use (KUBECONFIG, then
   * `~/.kube/config`), or else the service account of the pod that this host runs in.
   */
  readonly kubeConfig?: KubeConfigLike
  /** Namespaces that contain the fleet's builds and servers. Default: all namespaces in the cluster. */
  readonly namespaces?: readonly string[]
  /**
   * Namespace of the leader lease and of the Secret whose key encrypts server tokens. Must be the same on all hosts of a
   * fleet, and must not change when `namespaces` does. Default: the alphabetically first of `namespaces`, or `default`.
   */
  readonly systemNamespace?: string
  /** API group of the custom resources, also used as the prefix of pod labels. Default `mps.gamekeeper.com`. */
  readonly apiGroup?: string
  /** Public ports available on each node, both ends inclusive: `{ first, last }` or `'10000-12000'`. Default 10000–12000. */
  readonly portRange?: PortRange | string
  /** Address that players connect to on all nodes. Default: each node's ExternalIP, or its InternalIP if it has none. */
  readonly publicAddress?: string
  /**
   * `packed`: prefer nodes that already run servers, so that an autoscaler can remove empty nodes. `distributed`: leave the
   * choice to the scheduler. Default `packed`.
   */
  readonly scheduling?: Scheduling
  /**
   * Unique name of this host in the leader lease. A host that restarts with the same name can lead again only after its old
   * lease has expired. Default: the host name plus a random suffix.
   */
  readonly identity?: string
  /**
   * Name of the pod that this host runs in. While this host leads, the pod is labelled `<apiGroup>/leader: "true"`, so that a
   * Service can select it. Default: no pod is labelled.
   */
  readonly pod?: string
  /**
   * If the leader does not renew its lease for this long, another host takes over. At least 2,000 ms; the other hosts wait for the next
   * whole second. Give all hosts of a fleet the same. Default 2 s; a longer lease tolerates hosts and API servers that stall.
   */
  readonly leaseMs?: number
  /** Maximum number of API server calls per second; an allocation takes one call. Default 2,000. */
  readonly requestsPerSecond?: number
  /** Maximum number of concurrent API server calls, each on its own keep-alive connection. Default 64. */
  readonly connections?: number
  /** Timeout of an API server call. Default 20 s. */
  readonly callTimeoutMs?: number
  /**
   * Announces maintenance to the servers on a node that is cordoned. It begins this long after this host has seen the cordon, in
   * ms. Uncordoning the node withdraws it. Default: a cordon announces nothing.
   */
  readonly cordonNoticeMs?: number
  /**
   * Pulls the images of builds ahead to all nodes on which their servers may run, also to nodes that join later, so that no server waits for
   * its image. A new version of a build starts servers once the nodes have its images, at most 5 minutes later. Default false.
   */
  readonly prePullImages?: boolean
  /** How long deleting a pod may take after its grace period has ended. Default 90 s. */
  readonly deleteTimeoutMs?: number
  /** Default: no logging. */
  readonly logger?: Logger | false
  /** Default: the system clock. */
  readonly clock?: Clock
}

export type ResolvedKubernetesOptions = ReturnType<typeof resolveKubernetesOptions>

const reader: OptionReader = new OptionReader('kubernetesBackend')

const optionNames = [
  'kubeConfig',
  'namespaces',
  'systemNamespace',
  'apiGroup',
  'portRange',
  'publicAddress',
  ...platformOptionNames,
  'scheduling',
  'identity',
  'pod',
  'leaseMs',
  'requestsPerSecond',
  'connections',
  'callTimeoutMs',
  'deleteTimeoutMs',
  ...keptLogsOptionNames,
  'cordonNoticeMs',
  'prePullImages',
  'logger',
  'clock',
] as const satisfies readonly (keyof KubernetesBackendOptions)[]

const domain = /^(?=.{1,200}$)[a-z0-9]([-.a-z0-9]*[a-z0-9])?\.[a-z]+$/
const podName = /^(?=.{1,253}$)[a-z0-9]([-.a-z0-9]*[a-z0-9])?$/
const word = /^[\w.-]{1,200}$/

/** Throws `invalid`, naming the invalid option. */
export function resolveKubernetesOptions(options: KubernetesBackendOptions) {
  reader.rejectUnknown(options, optionNames)
  const { kubeConfig, systemNamespace, publicAddress, identity, pod, cordonNoticeMs } = options
  if (kubeConfig !== undefined && !isKubeConfig(kubeConfig)) {
    reader.reject('kubeConfig', 'must be a KubeConfig of @kubernetes/client-node', typeof kubeConfig)
  }
  if (systemNamespace !== undefined && !isNamespace(systemNamespace))
    reader.reject('systemNamespace', 'must be the name of a namespace', systemNamespace)
  return Object.freeze({
    kubeConfig,
    systemNamespace,
    namespaces: options.namespaces === undefined ? undefined : namespaces(options.namespaces),
    apiGroup: matching(
      'apiGroup',
      options.apiGroup ?? defaultApiGroup,
      domain,
      'must be a domain such as mps.gamekeeper.com',
    ),
    portRange: reader.portRange(options.portRange ?? defaultPortRange),
    publicAddress: publicAddress === undefined ? undefined : reader.host('publicAddress', publicAddress),
    platform: readPlatformOptions(reader, options),
    ...readKeptLogsOptions(reader, options),
    scheduling: scheduling(options.scheduling),
    identity:
      identity === undefined
        ? undefined
        : matching('identity', identity, word, 'must be 1 to 200 letters, digits, dashes, dots or underscores'),
    pod: pod === undefined ? undefined : matching('pod', pod, podName, 'must be the name of a pod'),
    leaseMs: leaseMs(options.leaseMs ?? 2_000),
    requestsPerSecond: reader.integer('requestsPerSecond', options.requestsPerSecond, 2_000),
    connections: reader.integer('connections', options.connections, 64),
    callTimeoutMs: reader.integer('callTimeoutMs', options.callTimeoutMs, 20_000),
    deleteTimeoutMs: reader.integer('deleteTimeoutMs', options.deleteTimeoutMs, 90_000),
    cordonNoticeMs: cordonNoticeMs === undefined ? undefined : reader.integer('cordonNoticeMs', cordonNoticeMs, 1),
    prePullImages: reader.boolean('prePullImages', options.prePullImages, false),
    logger: loggerOf(options.logger),
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

function matching(name: keyof KubernetesBackendOptions, value: unknown, pattern: RegExp, must: string): string {
  if (typeof value !== 'string' || !pattern.test(value)) reader.reject(name, must, value)
  return value
}

function scheduling(value: unknown): Scheduling {
  const found = schedulings.find((one) => one === (value ?? 'packed'))
  return found ?? reader.reject('scheduling', `must be ${schedulings.join(' or ')}`, value)
}

function leaseMs(value: unknown): number {
  const length = reader.integer('leaseMs', value, 0)
  if (length < 2_000) reader.reject('leaseMs', 'must be at least 2000', value)
  return length
}
