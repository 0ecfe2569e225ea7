/** Plain conditional status writes of GameServer objects: the least that an allocation could cost with one write each. */
import { KubernetesApi } from '../../adapters/kubernetes/client/api.js'
import { defaultKubeConfig } from '../../adapters/kubernetes/client/kube-config.js'
import { type KubeObject, pathOf, revisionOf, typeMetaOf } from '../../adapters/kubernetes/client/kube-objects.js'
import { fleetResources } from '../../adapters/kubernetes/store/custom-collection.js'
import { systemClock } from '../../src/contracts/clock.js'
import { isObject } from '../../src/rules/validation/problem.js'

export const connections = 128
const { servers: resource } = fleetResources()

export function newApi(): KubernetesApi {
  const limits = { connections, requestsPerSecond: 100_000, callTimeoutMs: 20_000 }
  return new KubernetesApi({ config: defaultKubeConfig(), clock: systemClock, ...limits })
}

export async function listServers(api: KubernetesApi, namespace: string): Promise<readonly KubeObject[]> {
  return (await api.list({ what: 'list', method: 'GET', path: pathOf(resource, { namespace }) })).items
}

/** Waits until `servers` servers are stored, all of them as StandingBy. Resolves to one of them. */
export async function whenSaved(api: KubernetesApi, namespace: string, servers: number): Promise<KubeObject> {
  for (;;) {
    const items = await listServers(api, namespace)
    const [model] = items
    const isReady = items.length === servers && items.every(({ status }) => Object(status)['state'] === 'StandingBy')
    if (model && isReady) return model
    await api.pause(200)
  }
}

export class BareWrites {
  readonly #api: KubernetesApi
  readonly #namespace: string
  readonly #spec: unknown
  readonly #status: object
  readonly #revisions = new Map<string, string>()

  /** `model` is a server of the fleet: the objects are as large as it is with a session. */
  constructor(api: KubernetesApi, namespace: string, { spec, status }: KubeObject) {
    const session = { sessionID: '9a6b2f0e-0000-4000-8000-000000000000', initialPlayers: ['amie'], state: 'Active' }
    this.#api = api
    this.#namespace = namespace
    this.#spec = spec
    this.#status = { ...(isObject(status) && status), ...session, reachedActiveOn: new Date(0).toISOString() }
  }

  /** Creates the objects `bare-0` to `bare-<count - 1>` that do not exist yet. Resolves to their names. */
  async create(count: number): Promise<readonly string[]> {
    const names = Array.from({ length: count }, (_, n) => `bare-${n}`)
    await Promise.all(names.filter((name) => !this.#revisions.has(name)).map((name) => this.#create(name)))
    return names
  }

  /** Writes as an allocation does: conditionally, and with a change in each write. */
  async write(name: string): Promise<void> {
    const resourceVersion = this.#revisions.get(name)
    const body = {
      ...typeMetaOf(resource),
      metadata: { name, namespace: this.#namespace, resourceVersion },
      status: { ...this.#status, writtenUpon: resourceVersion },
    }
    const path = pathOf(resource, { namespace: this.#namespace, name, subresource: 'status' })
    this.#revisions.set(name, revisionOf(await this.#api.object({ what: 'write', method: 'PUT', path, body })))
  }

  async #create(name: string): Promise<void> {
    const body = { ...typeMetaOf(resource), metadata: { name, namespace: this.#namespace }, spec: this.#spec }
    const path = pathOf(resource, { namespace: this.#namespace })
    this.#revisions.set(name, revisionOf(await this.#api.object({ what: 'create', method: 'POST', path, body })))
  }
}
