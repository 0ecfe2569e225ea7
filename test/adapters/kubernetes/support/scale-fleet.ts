/**
 * Fleets on hollow nodes, whose pods run nothing: their heartbeats are sent from here, first when the pod has a node, then once
 * a second.
 */
import { createFleet, type Fleet, type FleetLimits, type FleetOptions } from 'gamekeeper'
import { kubernetesBackend, type KubernetesBackendOptions } from 'gamekeeper/kubernetes'
import type { KubernetesApi } from '../../../../adapters/kubernetes/client/api.js'
import { pathOf, pods } from '../../../../adapters/kubernetes/client/kube-objects.js'
import type { Instance } from '../../../../src/contracts/backend.js'
import { FleetError } from '../../../../src/contracts/errors.js'
import type { HeartbeatAnswer } from '../../../../src/rules/game/heartbeat.js'
import { keyOf, type Ref } from '../../../../src/rules/model/resources.js'
import { kubectl } from './cluster.js'

/** Capacity of a hollow node. */
const podsPerNode = 110

/** How many more pods fit on the hollow nodes that are ready. */
export async function freeHollowPods(): Promise<number> {
  const columns =
    'jsonpath={range .items[*]}{.metadata.name} {.status.conditions[?(@.type=="Ready")].status}{"\\n"}{end}'
  const lines = (await kubectl('get', 'nodes', '-l', 'hollow=true', '-o', columns)).split('\n')
  const ready = lines.filter((line) => line.endsWith(' True')).map((line) => line.split(' ')[0] ?? '')
  const used = words(await kubectl('get', 'pods', '-A', '-o', 'jsonpath={.items[*].spec.nodeName}'))
  return ready.length * podsPerNode - used.filter((name) => ready.includes(name)).length
}

function words(text: string): readonly string[] {
  return text.split(/\s+/).filter((word) => word !== '')
}

/** Uses no grace period: the pods never ran, and hollow nodes are slow to report terminations. */
export async function removePods(api: KubernetesApi, namespace: string): Promise<void> {
  const path = pathOf(pods, { namespace })
  const body = { gracePeriodSeconds: 0, propagationPolicy: 'Background' }
  for (let attempt = 1; ; attempt++) {
    try {
      await api.request({ what: 'delete all pods', method: 'DELETE', path, body, timeoutMs: 60_000 })
      return
    } catch (error) {
      // The API server limits a request to half a minute; the next one deletes the rest.
      if (!(error instanceof FleetError) || attempt >= 5) throw error
    }
  }
}

/** Without a grace period, too. Resolves before the pod is gone. */
export async function removePod(api: KubernetesApi, ref: Ref): Promise<void> {
  const body = { gracePeriodSeconds: 0 }
  await api.request({ what: `delete pod ${ref.name}`, method: 'DELETE', path: pathOf(pods, ref), body })
}

/** The games of successive fleets; they keep running when the host that started them stops. */
export class HollowGames {
  readonly #ids = new Map<string, string>()
  readonly #running = new Set<string>()
  /** The games that have received a session. */
  readonly #active = new Set<string>()
  #fleet: Fleet | undefined
  readonly #timer = setInterval(() => this.#beatAll(), 1_000)

  async openFleet(
    options: KubernetesBackendOptions,
    limits: Partial<FleetLimits> = {},
    more: Pick<FleetOptions, 'forwarding'> = {},
  ): Promise<Fleet> {
    // Machines that run these tests are busy. A test of fail-over gives a shorter lease.
    const backend = kubernetesBackend({ leaseMs: 15_000, ...options })
    const create = backend.create.bind(backend)
    backend.create = async (spec, options) => {
      this.#ids.set(keyOf(spec.ref), spec.sdk.sessionHostId)
      const instance = await create(spec, options)
      // Runs after the fleet has processed the result.
      setImmediate(() => this.#schedule(instance))
      return instance
    }
    const watch = backend.watch.bind(backend)
    backend.watch = (listener) =>
      watch({
        ...listener,
        changed: (instance) => {
          listener.changed(instance)
          this.#schedule(instance)
        },
        gone: (ref, uid) => {
          listener.gone(ref, uid)
          this.#stop(keyOf(ref))
        },
      })
    // Unused, since the games run in this process.
    this.#fleet = await createFleet({ backend, agent: { external: '192.0.2.1:56001' }, limits, ...more })
    return this.#fleet
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  #schedule({ ref, node }: Instance): void {
    const key = keyOf(ref)
    if (node === undefined || this.#running.has(key)) return
    this.#running.add(key)
    this.#beat(key)
  }

  #beatAll(): void {
    for (const key of this.#running) this.#beat(key)
  }

  /** Sends a heartbeat of this server and returns the answer. */
  answerTo(server: Ref): HeartbeatAnswer | undefined {
    return this.#beat(keyOf(server))
  }

  #beat(key: string): HeartbeatAnswer | undefined {
    const id = this.#ids.get(key)
    if (id === undefined) return undefined
    const state = this.#active.has(key) ? 'Active' : 'StandingBy'
    const answer = this.#fleet?.heartbeat(id, { state, health: 'Healthy', players: [] })
    if (answer?.operation === 'Active') this.#active.add(key)
    return answer
  }

  #stop(key: string): void {
    this.#ids.delete(key)
    this.#running.delete(key)
    this.#active.delete(key)
  }
}

export function hollowBuild(namespace: string, size: number) {
  return {
    metadata: { name: 'arena', namespace },
    spec: {
      ...{ buildID: `id-of-${namespace}`, standingBy: size, max: size },
      portsToExpose: [7777],
      template: { spec: podSpec({ containerPort: 7777 }) },
    },
  }
}

/** A pod like a server's, created without a fleet. */
export function hollowPod(metadata: Ref, hostPort: number): object {
  return { metadata, spec: podSpec({ containerPort: 7777, hostPort }) }
}

function podSpec(port: { readonly containerPort: number; readonly hostPort?: number }) {
  return {
    automountServiceAccountToken: false,
    nodeSelector: { hollow: 'true' },
    tolerations: [{ key: 'kubemark', operator: 'Exists' }],
    containers: [{ name: 'game', image: 'arena:1', ports: [port] }],
  }
}

/** Resolves once this many more servers are standing by. */
export function standingBy(fleet: Fleet, count: number): Promise<void> {
  return new Promise((resolve) => {
    const ready = new Set<string>()
    const stop = fleet.on('ServerStateChanged', ({ server, to }) => {
      if (to !== 'StandingBy') return
      ready.add(server.name)
      if (ready.size < count) return
      stop()
      resolve()
    })
  })
}
