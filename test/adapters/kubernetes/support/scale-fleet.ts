/**
 * Fleets on hollow nodes, whose pods run nothing: their games' side is played here. A game speaks as soon as its pod has a node,
 * and with that its configuration, and then once a second.
 */
import { createFleet, type Fleet, type FleetLimits } from 'gamekeeper'
import { type KubernetesBackendOptions, kubernetesBackend } from 'gamekeeper/kubernetes'
import type { Instance } from '../../../../src/contracts/backend.js'
import { FleetError } from '../../../../src/contracts/errors.js'
import { keyOf, type Ref } from '../../../../src/rules/model/resources.js'
import type { KubernetesApi } from '../../../../adapters/kubernetes/client/api.js'
import { pathOf, pods } from '../../../../adapters/kubernetes/client/kube-objects.js'
import { kubectl } from './cluster.js'

/** What one of them takes. */
const podsPerNode = 110

/** How many more pods the hollow nodes take. */
export async function hollowRoom(): Promise<number> {
  const nodes = words(await kubectl('get', 'nodes', '-l', 'hollow=true', '-o', 'jsonpath={.items[*].metadata.name}'))
  const used = words(await kubectl('get', 'pods', '-A', '-o', 'jsonpath={.items[*].spec.nodeName}'))
  return nodes.length * podsPerNode - used.filter((name) => nodes.includes(name)).length
}

function words(text: string): readonly string[] {
  return text.split(/\s+/).filter((word) => word !== '')
}

/** At once: what never ran needs no time to end, and hollow nodes are slow to say that something has. */
export async function removePods(api: KubernetesApi, namespace: string): Promise<void> {
  const path = pathOf(pods, { namespace })
  const body = { gracePeriodSeconds: 0, propagationPolicy: 'Background' }
  for (let attempt = 1; ; attempt++) {
    try {
      await api.request({ what: 'remove all pods', method: 'DELETE', path, body, timeoutMs: 60_000 })
      return
    } catch (error) {
      // The API server gives a request half a minute, in which it may not come to the end of them: the next goes on from there.
      if (!(error instanceof FleetError) || attempt >= 5) throw error
    }
  }
}

/** Plays every game of one fleet after the other: a game outlives the host that started it. */
export class HollowGames {
  readonly #ids = new Map<string, string>()
  readonly #playing = new Set<string>()
  #fleet: Fleet | undefined
  readonly #timer = setInterval(() => this.#beatAll(), 1_000)

  async openFleet(options: KubernetesBackendOptions, limits: Partial<FleetLimits> = {}): Promise<Fleet> {
    const backend = kubernetesBackend(options)
    const create = backend.create.bind(backend)
    backend.create = async (spec, given) => {
      this.#ids.set(keyOf(spec.ref), spec.sdk.sessionHostId)
      const instance = await create(spec, given)
      // Once the fleet knows of it.
      setImmediate(() => this.#look(instance))
      return instance
    }
    const watch = backend.watch.bind(backend)
    backend.watch = (listener) =>
      watch({
        ...listener,
        changed: (instance) => {
          listener.changed(instance)
          this.#look(instance)
        },
      })
    // Nobody is to speak there: the games are in this process.
    this.#fleet = await createFleet({ backend, agent: { external: '192.0.2.1:56001' }, limits })
    return this.#fleet
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  #look({ ref, node }: Instance): void {
    const key = keyOf(ref)
    if (node === undefined || this.#playing.has(key)) return
    this.#playing.add(key)
    this.#beat(key)
  }

  #beatAll(): void {
    for (const key of this.#playing) this.#beat(key)
  }

  #beat(key: string): void {
    const id = this.#ids.get(key)
    if (id !== undefined) this.#fleet?.heartbeat(id, { state: 'StandingBy', health: 'Healthy', players: [] })
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

/** The same without a fleet. */
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

/** Resolves when so many stand by that did not before. */
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
