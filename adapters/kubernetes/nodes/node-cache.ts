/**
 * The nodes of the cluster, kept current by a watch, and what is read from them: addresses, readiness, cordons, and which pods they accept.
 */
import { isIPv4 } from 'node:net'
import type { AgentEndpoint } from '../../../src/contracts/backend.js'
import type { Clock } from '../../../src/contracts/clock.js'
import { FleetError } from '../../../src/contracts/errors.js'
import { isLoopback, isOwnAddress } from '../../../src/platform/http-server.js'
import type { PodTemplateSpec } from '../../../src/rules/model/resources.js'
import { isObject } from '../../../src/rules/validation/problem.js'
import { objectAt, objectsAt, stringAt } from '../../../src/rules/validation/pod-template.js'
import type { ApiContext } from '../client/api.js'
import {
  type Condition,
  conditionsOfTypes,
  hasObjectShape,
  type KubeObject,
  nodes as nodeType,
  type ObjectMeta,
  type Optional,
  pathOf,
} from '../client/kube-objects.js'
import { watchCollection } from '../client/watch.js'

interface NodeCacheDependencies extends ApiContext {
  /** Called when the node's address or readiness has changed, or when it was cordoned or uncordoned. */
  readonly onChange: (name: string, node: Node | undefined) => void
  /**
   * Called each time that a node is reported, or with undefined when it was deleted. If given, nodes are kept with their uid and the names of
   * their images.
   */
  readonly onReport?: ((name: string, node: Node | undefined) => void) | undefined
}

export class NodeCache {
  readonly #deps: NodeCacheDependencies
  readonly #nodes = new Map<string, Node>()

  constructor(deps: NodeCacheDependencies) {
    this.#deps = deps
  }

  get(name: string): Node | undefined {
    return this.#nodes.get(name)
  }

  all(): Iterable<Node> {
    return this.#nodes.values()
  }

  /** Loads all nodes into the cache. Rejects with the API server's error. */
  async list(): Promise<void> {
    const { items } = await this.#deps.api.list({ what: 'list nodes', method: 'GET', path: pathOf(nodeType) })
    this.#setAll(items)
  }

  /** Keeps the cache current until the returned function is called. */
  follow(): () => void {
    return watchCollection(
      { ...this.#deps, what: 'nodes', path: pathOf(nodeType) },
      {
        listed: (objects) => this.#setAll(objects),
        changed: (object) => this.#set(object.metadata.name, this.#read(object)),
        deleted: ({ metadata }) => this.#set(metadata.name, undefined),
      },
    )
  }

  #setAll(objects: readonly KubeObject[]): void {
    const listed = new Map(objects.map((object) => [object.metadata.name, this.#read(object)]))
    for (const name of new Set([...this.#nodes.keys(), ...listed.keys()])) this.#set(name, listed.get(name))
  }

  #read(object: KubeObject): Node | undefined {
    return nodeIn(object, this.#deps.onReport !== undefined)
  }

  #set(name: string, node: Node | undefined): void {
    const before = this.#nodes.get(name)
    if (node) this.#nodes.set(name, node)
    else this.#nodes.delete(name)
    // Nodes change constantly, but only a few of their fields matter.
    const isUnchanged = before && node && isSame(before, node)
    if (!isUnchanged && (before || node)) this.#deps.onChange(name, node)
    this.#deps.onReport?.(name, node)
  }
}

function isSame(a: Node, b: Node): boolean {
  const isSameCordon = (a.spec?.unschedulable === true) === (b.spec?.unschedulable === true)
  return isSameCordon && nodeAddress(a) === nodeAddress(b) && isReady(a) === isReady(b)
}

interface CordonedNodesDependencies {
  readonly clock: Clock
  readonly noticeMs: number
  /** Called with the wall time in ms at which the maintenance of each cordoned node begins, whenever that changes. */
  readonly report: (nodes: ReadonlyMap<string, number>) => void
}

/** The nodes that are cordoned, and when their maintenance begins: a fixed time after this host saw the cordon. */
export class CordonedNodes {
  readonly #deps: CordonedNodesDependencies
  readonly #beginsAt = new Map<string, number>()
  #isListed = false

  constructor(deps: CordonedNodesDependencies) {
    this.#deps = deps
  }

  /** The last report. Undefined until the nodes have been listed, because an unknown node may be cordoned. */
  get current(): ReadonlyMap<string, number> | undefined {
    return this.#isListed ? this.#beginsAt : undefined
  }

  /** Call when a node has changed or, with undefined, no longer exists. */
  nodeChanged(name: string, node: Node | undefined): void {
    const isCordoned = node?.spec?.unschedulable === true
    if (isCordoned === this.#beginsAt.has(name)) return
    const { clock, noticeMs } = this.#deps
    if (isCordoned) this.#beginsAt.set(name, clock.now() + noticeMs)
    else this.#beginsAt.delete(name)
    if (this.#isListed) this.#deps.report(this.#beginsAt)
  }

  /** Call once all nodes have been listed. */
  listed(): void {
    this.#isListed = true
    this.#deps.report(this.#beginsAt)
  }
}

/**
 * Finds an address of this machine at which pods can reach the agent. `host` is the configured listen address. Rejects with `invalid` if none can be detected and one must be
 * configured.
 */
export async function findAgentEndpoint(host: string | undefined, nodes: Iterable<Node>): Promise<AgentEndpoint> {
  const isWildcard = host === '0.0.0.0' || host === '::'
  const isLocal = host !== undefined && isLoopback(host)
  if (host !== undefined && !isWildcard && !isLocal) return { host, advertisedHost: host }
  if (isLocal) throw mustBeConfigured(`pods cannot reach an agent on ${host}`, 'omit agent.host, or ')
  for (const node of nodes) {
    const address = internalAddress(node)
    if (address !== undefined && (await isOwnAddress(address)))
      return { host: host ?? address, advertisedHost: address }
  }
  throw mustBeConfigured(
    'this host is not a node of the cluster, so the address at which pods reach its agent is unknown',
  )
}

function mustBeConfigured(reason: string, alternative = ''): FleetError {
  return new FleetError(
    'invalid',
    `${reason}: ${alternative}set agent: { host } to the listen address and agent: { address } to the address that pods use, such as that of a Service`,
  )
}

type Taint = Optional<{ key: string; value: string; effect: string }>

export type Node = Optional<{
  metadata: ObjectMeta
  spec: Optional<{ unschedulable: boolean; taints: readonly Taint[] }>
  status: Optional<{
    addresses: readonly Optional<{ type: string; address: string }>[]
    conditions: readonly Condition[]
    images: readonly ImageNames[]
  }>
}>

/** The names of one image. */
export type ImageNames = Optional<{ names: readonly string[] }>

/** Keeps the fields that this adapter reads. */
function nodeIn(value: unknown, withImages: boolean): Node | undefined {
  if (!isNode(value)) return undefined
  const { metadata = {}, spec = {}, status = {} } = value
  return {
    metadata: { name: metadata.name, labels: metadata.labels, ...(withImages && { uid: metadata.uid }) },
    spec: { unschedulable: spec.unschedulable, taints: spec.taints },
    status: {
      addresses: status.addresses,
      conditions: conditionsOfTypes(status.conditions, ['Ready']),
      ...(withImages && { images: status.images?.map(({ names }) => ({ names })) }),
    },
  }
}

function isNode(value: unknown): value is Node {
  return hasObjectShape(value)
}

/** The address that players connect to: the node's ExternalIP, or its InternalIP if it has none. */
export function nodeAddress(node: Node): string | undefined {
  return addressOfType(node, 'ExternalIP') ?? internalAddress(node)
}

function internalAddress(node: Node): string | undefined {
  return addressOfType(node, 'InternalIP')
}

/** The node's location according to its cloud provider: region and public DNS name. */
export function nodePlatform(node: Node): { readonly region?: string; readonly fullyQualifiedDomainName?: string } {
  const labels = node.metadata?.labels
  const region = regionLabels.map((name) => labels?.[name]).find(Boolean)
  const domainName = addressOfType(node, 'ExternalDNS')
  return {
    ...(region !== undefined && { region }),
    ...(domainName !== undefined && { fullyQualifiedDomainName: domainName }),
  }
}

/** The second is used in clusters created before Kubernetes 1.17. */
const regionLabels = ['topology.kubernetes.io/region', 'failure-domain.beta.kubernetes.io/region']

/** Prefers IPv4: the API and the game SDKs only have a field for an IPv4 address. */
function addressOfType({ status }: Node, wanted: string): string | undefined {
  const found = status?.addresses?.flatMap(({ type, address }) => (type === wanted && address ? [address] : []))
  return found?.find(isIPv4) ?? found?.[0]
}

/** Whether the node is ready. If not, its kubelet may have stopped reporting, and the state of its pods is unknown. */
export function isReady({ status }: Node): boolean {
  return status?.conditions?.find(({ type }) => type === 'Ready')?.status === 'True'
}

/**
 * Whether a pod with this template can currently be scheduled to the node, judging by cordon, taints and node selector.
 * Required affinities are ignored: at worst, a port counts as free because of a node that never runs the pod.
 */
export function acceptsPod({ metadata, spec = {} }: Node, template: PodTemplateSpec): boolean {
  if (spec.unschedulable) return false
  const pod = objectAt(template, 'spec')
  const { name, labels = {} } = metadata ?? {}
  const pinned = stringAt(pod, 'nodeName')
  if (pinned !== undefined && pinned !== name) return false
  const selector = Object.entries(objectAt(pod, 'nodeSelector'))
  if (selector.some(([label, value]) => labels[label] !== value)) return false
  const tolerations = objectsAt(pod, 'tolerations')
  const repelling = (spec.taints ?? []).filter(({ effect }) => effect !== 'PreferNoSchedule')
  return repelling.every((taint) => tolerations.some((toleration) => tolerates(toleration, taint)))
}

function tolerates(toleration: unknown, { key = '', value = '', effect = '' }: Taint): boolean {
  if (!isObject(toleration)) return false
  const read = (name: string) => stringAt(toleration, name) ?? ''
  if (read('effect') !== '' && read('effect') !== effect) return false
  if (read('key') === '') return read('operator') === 'Exists'
  return read('key') === key && (read('operator') === 'Exists' || read('value') === value)
}
