/** An API server in memory with the GameServers and the journal of one fleet. Time is virtual. */
import { failedCall, parseApiError } from '../../../../adapters/kubernetes/client/api-errors.js'
import type { ApiCall } from '../../../../adapters/kubernetes/client/api.js'
import { isKubeObject, type KubeObject, pathOf } from '../../../../adapters/kubernetes/client/kube-objects.js'
import { fleetResources } from '../../../../adapters/kubernetes/store/custom-collection.js'
import { openEntry } from '../../../../adapters/kubernetes/store/journal/journal-entries.js'
import type { FleetError } from '../../../../src/contracts/errors.js'
import { isObject } from '../../../../src/rules/validation/problem.js'
import type { Fields } from '../../../../src/rules/validation/pod-template.js'
import { virtualClock } from '../../../../src/testing/virtual-clock.js'

export const resources = fleetResources()
export const journalKey = new Uint8Array(32)
export const home = { namespace: 'games', name: 'gamekeeper' }
const journalPath = pathOf(resources.journals, home)
export class JournalCluster {
  readonly clock
  readonly #objects = new Map<string, KubeObject>()
  #revision = 100

  constructor(seed = 1) {
    this.clock = virtualClock({ seed })
  }

  /** Lets time pass until the work is done. */
  async during<T>(work: Promise<T>): Promise<T> {
    let isDone = false
    const end = () => void (isDone = true)
    work.then(end, end)
    await this.clock.until(() => isDone)
    return work
  }

  server(name: string): KubeObject {
    return this.at(serverPath(name))
  }

  /** The session that the status of the server shows. */
  shown(name: string): unknown {
    const { status } = this.server(name)
    return isObject(status) ? status['sessionID'] : undefined
  }

  /** The sessions in the journal. */
  journaled(): readonly unknown[] {
    const lines = this.journal?.['entries']
    return Array.isArray(lines) ? lines.map((line) => openEntry(String(line), journalKey)?.status['sessionID']) : []
  }

  get journal(): Fields | undefined {
    const spec = this.#objects.get(journalPath)?.['spec']
    return isObject(spec) ? spec : undefined
  }

  /** As `kubectl edit` does; without fields, as `kubectl delete`. */
  editJournal(fields: Fields | undefined): void {
    if (fields) this.#put(journalPath, { ...this.at(journalPath), spec: { ...this.journal, ...fields } })
    else this.#objects.delete(journalPath)
  }

  label(name: string, labels: Readonly<Record<string, string>>): KubeObject {
    const { metadata, ...object } = this.server(name)
    return this.#put(serverPath(name), {
      ...object,
      metadata: { ...metadata, labels: { ...metadata.labels, ...labels } },
    })
  }

  /** As a host of a version without the journal does. */
  writeStatus(name: string, status: Fields): KubeObject {
    const object = this.server(name)
    return this.#put(serverPath(name), {
      ...object,
      status: { ...status, writtenUpon: object.metadata.resourceVersion },
    })
  }

  at(path: string): KubeObject {
    const found = this.#objects.get(path)
    if (!found) throw failed(404, { what: 'get', method: 'GET', path })
    return found
  }

  list(): readonly KubeObject[] {
    return [...this.#objects].filter(([path]) => path !== journalPath).map(([, object]) => object)
  }

  get revision(): string {
    return String(this.#revision)
  }

  /** What the API server does. Throws the error that the client reports. */
  answer(call: ApiCall): KubeObject {
    const path = call.path.replace(/\/status$/, '')
    if (call.method === 'GET') return this.at(path)
    const body: unknown = call.body
    if (call.method === 'DELETE') return this.#delete(path, call)
    if (!isKubeObject(body)) throw failed(400, call)
    if (call.method === 'POST') return this.#create(`${path}/${body.metadata.name}`, body, call)
    const object = this.at(path)
    if (body.metadata.resourceVersion !== object.metadata.resourceVersion) throw failed(409, call)
    const part = call.path === path ? 'spec' : 'status'
    return this.#put(path, { ...object, [part]: body[part] })
  }

  #create(path: string, body: KubeObject, call: ApiCall): KubeObject {
    if (this.#objects.has(path)) throw failed(409, call)
    return this.#put(path, { ...body, metadata: { ...body.metadata, uid: `object-${this.#revision}` } })
  }

  #delete(path: string, call: ApiCall): KubeObject {
    const object = this.at(path)
    const { preconditions } = { preconditions: undefined, ...call.body }
    const expected = isObject(preconditions) ? preconditions['resourceVersion'] : undefined
    if (expected !== object.metadata.resourceVersion) throw failed(409, call)
    this.#objects.delete(path)
    return object
  }

  #put(path: string, object: KubeObject): KubeObject {
    const text = JSON.stringify({
      ...object,
      metadata: { ...object.metadata, resourceVersion: String(++this.#revision) },
    })
    const stored: unknown = JSON.parse(text)
    if (!isKubeObject(stored)) throw new Error(`not an object: ${text}`)
    this.#objects.set(path, stored)
    return stored
  }
}

function serverPath(name: string): string {
  return pathOf(resources.servers, { namespace: 'games', name })
}

export function failed(status: number, { what, path }: ApiCall): FleetError {
  const text = JSON.stringify({ message: `HTTP ${status}`, details: { name: path } })
  return failedCall(parseApiError(status, text), what, 'memory')
}
