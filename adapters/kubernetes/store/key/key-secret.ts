/** Reads and writes the Secret with the fleet's key, and finds out which key has sealed the tokens of servers. */
import { createHash } from 'node:crypto'
import { FleetError } from '../../../../src/contracts/errors.js'
import { isObject } from '../../../../src/rules/validation/problem.js'
import { statusOf } from '../../client/api-errors.js'
import type { KubernetesApi } from '../../client/api.js'
import { fieldsAt, textAt } from '../../client/fields.js'
import { keyFor, type KubeObject, pathOf, revisionOf, secrets } from '../../client/kube-objects.js'
import { isSealed, unseal } from './sealing.js'

export const keySecretName = 'gamekeeper-key'
export const keyBytes = 32
const keyField = 'key'

export interface KeySecretDependencies {
  readonly api: KubernetesApi
  /** Namespace of the Secret. */
  readonly namespace: string
  /** API group of the fleet's objects. */
  readonly group: string
  /** API paths of the fleet's servers. */
  readonly serverPaths: readonly string[]
}

/** Whether a key has sealed the tokens that are recorded: `none` if no token is. */
export interface Readability {
  readonly tokens: 'readable' | 'unreadable' | 'none'
  /** Servers, as `namespace/name`, whose tokens were sealed with another key. */
  readonly servers: readonly string[]
}

export class KeySecret {
  readonly #deps: KeySecretDependencies

  constructor(deps: KeySecretDependencies) {
    this.#deps = deps
  }

  /** `namespace/name` of the Secret. */
  get id(): string {
    return `${this.#deps.namespace}/${keySecretName}`
  }

  get path(): string {
    return pathOf(secrets, { namespace: this.#deps.namespace })
  }

  /** Undefined if the Secret does not exist. */
  async read(signal: AbortSignal): Promise<KubeObject | undefined> {
    const path = pathOf(secrets, { namespace: this.#deps.namespace, name: keySecretName })
    try {
      return await this.#deps.api.object({ what: `get secret ${this.id}`, method: 'GET', path, signal })
    } catch (error) {
      if (FleetError.is(error, 'not-found')) return undefined
      throw error
    }
  }

  /**
   * Writes the key in place of `found`. Rejects with `conflict` if the Secret has changed meanwhile. Every host may do this, also before any
   * host leads.
   */
  async write(
    key: Buffer,
    found: KubeObject | undefined,
    { replacesLost, signal }: { readonly replacesLost: boolean; readonly signal: AbortSignal },
  ): Promise<KubeObject> {
    const { api, namespace } = this.#deps
    const data = { [keyField]: key.toString('base64') }
    const annotations = replacesLost ? { [this.annotation]: fingerprint(key) } : {}
    const common = { unfenced: true, signal }
    if (found) {
      const path = pathOf(secrets, { namespace, name: keySecretName })
      const body = { metadata: { resourceVersion: revisionOf(found), annotations }, data }
      return api.object({ what: `update secret ${this.id}`, method: 'PATCH', path, body, ...common })
    }
    const body = { metadata: { name: keySecretName, namespace, annotations }, type: 'Opaque', data }
    try {
      return await api.object({ what: `create secret ${this.id}`, method: 'POST', path: this.path, body, ...common })
    } catch (error) {
      if (!FleetError.is(error, 'not-found')) throw error
      throw new FleetError('invalid', `kubernetesBackend: namespace ${namespace} does not exist`, { cause: error })
    }
  }

  /** Whether an operator has declared the key lost that was there before this one. */
  replacesLost(secret: KubeObject, key: Buffer): boolean {
    return secret.metadata.annotations?.[this.annotation] === fingerprint(key)
  }

  /** What an operator says with the fingerprint of a key: that it is the right one, whatever the tokens were sealed with. */
  confirmation(key: Buffer): string {
    return `${this.annotation}=${fingerprint(key)}`
  }

  get annotation(): string {
    return `${this.#deps.group}/replaces-lost-key`
  }

  /**
   * Whether one of the recorded tokens can be read with this key. Hosts hold the same key, so one is usually enough. What somebody has
   * written by hand in place of a token says nothing.
   */
  async readability(key: Buffer | undefined, signal: AbortSignal): Promise<Readability> {
    const servers: string[] = []
    for (const path of this.#deps.serverPaths) {
      let sealed: readonly KubeObject[] = []
      for (const limit of [sampleSize, undefined]) {
        const items = await this.#list(path, limit, signal)
        sealed = items.filter((server) => isSealed(textAt(fieldsAt(server, 'spec'), 'token') ?? ''))
        if (key && sealed.some((server) => isReadable(key, fieldsAt(server, 'spec')))) {
          return { tokens: 'readable', servers: [] }
        }
        if (items.length < sampleSize) break
      }
      servers.push(...sealed.map(keyFor))
    }
    return { tokens: servers.length > 0 ? 'unreadable' : 'none', servers }
  }

  /** A namespace that this host may not list cannot be led either, which the fleet reports. */
  async #list(path: string, limit: number | undefined, signal: AbortSignal): Promise<readonly KubeObject[]> {
    try {
      const call = { what: 'list gameservers', method: 'GET', path, query: { limit }, signal } as const
      return (await this.#deps.api.list(call)).items
    } catch (error) {
      if (statusOf(error) === 403) return []
      throw error
    }
  }
}

const sampleSize = 100

function isReadable(key: Buffer, spec: Readonly<Record<string, unknown>>): boolean {
  return unseal(key, textAt(spec, 'token') ?? '', textAt(spec, 'uid') ?? '') !== undefined
}

/** Undefined if the Secret contains no key. */
export function keyIn(secret: KubeObject | undefined): Buffer | undefined {
  const text = isObject(secret?.['data']) ? secret['data'][keyField] : undefined
  const key = Buffer.from(typeof text === 'string' ? text : '', 'base64')
  return key.length === keyBytes ? key : undefined
}

/** An empty Secret is how an operator asks for a new key. */
export function isEmpty(secret: KubeObject): boolean {
  return !isObject(secret['data']) || Object.keys(secret['data']).length === 0
}

function fingerprint(key: Buffer): string {
  return createHash('sha256').update(key).digest('hex').slice(0, 16)
}
