/**
 * The key of the fleet, which every host remembers. A Secret that is deleted or edited is restored by any host whose key reads the
 * recorded tokens. A host that cannot read them does not lead: it would replace every idle server, and hear no match.
 */
import { createCipheriv, createDecipheriv, createHash, createHmac } from 'node:crypto'
import type { Clock } from '../../../src/contracts/clock.js'
import { FleetError } from '../../../src/contracts/errors.js'
import type { Logger } from '../../../src/contracts/logger.js'
import { pauseMs } from '../../../src/rules/lifecycle/backoff.js'
import { isObject } from '../../../src/rules/validation/problem.js'
import { objectAt, stringAt } from '../../../src/rules/validation/pod-template.js'
import { foundOrUndefined, statusOf } from '../client/api-errors.js'
import type { KubernetesApi } from '../client/api.js'
import { keyFor, type KubeObject, pathOf, revisionOf, secrets, typeMetaOf } from '../client/kube-objects.js'
import { watchCollection } from '../client/watch.js'
import type { KubeEvent } from './kube-events.js'
import type { TokenKey } from './server-object.js'

interface FleetKeyDependencies extends KeySecretDependencies {
  readonly clock: Clock
  readonly logger: Logger
  /** Whether this host leads, so that the servers' tokens are sealed with its key. */
  readonly isLeading: () => boolean
  /** Shows what happened to the Secret. */
  readonly event: (event: Omit<KubeEvent, 'at'>) => void
}

const retryLimits = { initialMs: 500, maxMs: 30_000 }
/** A host that cannot read the servers' tokens checks again this often: they end, or somebody repairs the Secret. */
const recheckMs = 10_000
/** Restoring the key this long after the last time counts as the first time again. */
const calmMs = 300_000

export class FleetKey {
  readonly #deps: FleetKeyDependencies
  readonly #secret: KeySecret
  readonly #closing = new AbortController()
  #key: Buffer | undefined
  #obstacle: string | undefined
  /** Whether an operator has confirmed the key: the Secret says so when it is restored, too. */
  #isConfirmed = false
  /** How often in a row the key was restored, and when last. */
  #restores = 0
  #restoredAt = -Infinity
  /** Whether this host may not watch the Secret. */
  #isUnwatched = false
  /** The Secret as last seen. */
  #seen: KubeObject | undefined
  #running: Promise<void> | undefined
  #unwatch = () => {}
  /** Ends the current pause. */
  #wake = () => {}

  constructor(deps: FleetKeyDependencies) {
    this.#deps = deps
    this.#secret = new KeySecret(deps)
  }

  /** Undefined if this host knows none. */
  get key(): Buffer | undefined {
    return this.#key
  }

  /** Why this host must not lead, and what to do about it. */
  get obstacle(): string | undefined {
    return this.#obstacle
  }

  /** Reads the Secret, or creates it for a new fleet. Rejects with the API server's error. */
  async open(): Promise<void> {
    this.#seen = await this.#secret.read(this.#closing.signal)
    try {
      await this.#settle(this.#seen)
    } catch (error) {
      // Another host has written the Secret first.
      if (!FleetError.is(error, 'conflict')) throw error
      this.#seen = await this.#secret.read(this.#closing.signal)
      await this.#settle(this.#seen)
    }
    this.#watch()
  }

  async close(): Promise<void> {
    this.#closing.abort()
    this.#unwatch()
    this.#wake()
    await this.#running
  }

  #watch(): void {
    const { logger } = this.#deps
    const query = { fieldSelector: `metadata.name=${keySecretName}` }
    this.#unwatch = watchCollection(
      { ...this.#deps, what: `secret ${this.#secret.id}`, path: this.#secret.path, query },
      {
        listed: (objects) => this.#see(objects.find(({ metadata }) => metadata.name === keySecretName)),
        changed: (secret) => this.#see(secret),
        deleted: () => this.#see(undefined),
        broken: (error) => {
          if (statusOf(error) !== 403) return
          this.#unwatch()
          const message =
            'not allowed to `list` and `watch` the Secret with the key: it is not restored when it is lost. Restoring also needs `patch`'
          logger.warn({ secret: this.#secret.id }, message)
          this.#isUnwatched = true
          this.#see(this.#seen)
        },
      },
    )
  }

  #see(secret: KubeObject | undefined): void {
    this.#seen = secret
    this.#wake()
    this.#running ??= this.#settleSeen().finally(() => (this.#running = undefined))
  }

  /** Never rejects. */
  async #settleSeen(): Promise<void> {
    const { api, logger } = this.#deps
    const { signal } = this.#closing
    for (let failures = 0; !signal.aborted && !api.closed;) {
      const waker = new AbortController()
      this.#wake = () => waker.abort()
      try {
        if (this.#isUnwatched) this.#seen = await this.#secret.read(signal)
        const seen = this.#seen
        await this.#settle(seen)
        failures = 0
        if (seen !== this.#seen) continue
        if (this.#obstacle === undefined) return
        await api.pause(recheckMs, waker.signal)
      } catch (error) {
        if (signal.aborted || api.closed) return
        failures++
        // After a conflict, the watch reports what another host has written.
        const level = FleetError.is(error, 'conflict') ? 'debug' : 'warn'
        logger[level]({ err: error, secret: this.#secret.id }, 'cannot restore the key of the fleet; will retry')
        await api.pause(pauseMs(failures, retryLimits), waker.signal)
      }
    }
  }

  async #settle(secret: KubeObject | undefined): Promise<void> {
    const { signal } = this.#closing
    const found = keyIn(secret)
    if (this.#key && !(found && this.#key.equals(found))) return this.#settleDifference(this.#key, secret, found)
    if (found && secret) return this.#adopt(found, secret)
    // Only an empty Secret says that the key of existing servers is lost for good.
    const isDeclaredLost = secret !== undefined && isEmpty(secret)
    const { tokens, servers } = isDeclaredLost ? noTokens : await this.#secret.readability(undefined, signal)
    if (tokens === 'none') {
      const key = Buffer.from(this.#deps.clock.randomBytes(keyBytes))
      this.#seen = await this.#secret.write(key, secret, { replacesLost: isDeclaredLost, signal })
      this.#key = key
      this.#isConfirmed = isDeclaredLost
      return this.#setObstacle(undefined)
    }
    const what = secret ? `contains no key of ${keyBytes} bytes` : 'is missing'
    this.#setObstacle(`${what}, and tokens of servers (${some(servers)}) were sealed with it: ${this.#advice}`)
  }

  /** The Secret contains another key than this host knows, or none. */
  async #settleDifference(own: Buffer, secret: KubeObject | undefined, found: Buffer | undefined): Promise<void> {
    const isLeading = this.#deps.isLeading()
    // Tokens that have not been sealed again yet still need the old key, but the operator has declared it lost: do not restore it.
    if (!isLeading && found && secret && this.#secret.replacesLost(secret, found)) return this.#adopt(found, secret)
    const { tokens, servers } = isLeading ? readable : await this.#secret.readability(own, this.#closing.signal)
    if (tokens === 'readable' || (tokens === 'none' && !found)) return this.#restore(own, secret)
    if (found && secret) return this.#adopt(found, secret)
    const others = `tokens of servers (${some(servers)}) were sealed with another key than this host knows`
    this.#setObstacle(`is missing, and ${others}: ${this.#advice}`)
  }

  async #adopt(found: Buffer, secret: KubeObject): Promise<void> {
    this.#isConfirmed = this.#secret.replacesLost(secret, found)
    if (this.#key?.equals(found) && this.#obstacle === undefined) return
    const { tokens, servers } = this.#isConfirmed
      ? noTokens
      : await this.#secret.readability(found, this.#closing.signal)
    this.#key = found
    if (tokens !== 'unreadable') return this.#setObstacle(undefined)
    const command = `kubectl annotate secret -n ${this.#deps.namespace} ${keySecretName} --overwrite ${this.#secret.confirmation(found)}`
    this.#setObstacle(
      `contains another key than the tokens of servers (${some(servers)}) were sealed with: restore it from a backup;` +
        ` if this is the right key, delete those servers, or keep it with \`${command}\`: ${consequence}`,
    )
  }

  async #restore(key: Buffer, secret: KubeObject | undefined): Promise<void> {
    const { api, clock, event, logger, namespace } = this.#deps
    const { signal } = this.#closing
    if (clock.elapsed() - this.#restoredAt > calmMs) this.#restores = 0
    // Back off if something keeps changing it, such as a controller that has another key in its repository.
    if (this.#restores > 0) await api.pause(pauseMs(this.#restores, retryLimits), signal)
    if (signal.aborted || this.#seen !== secret) return
    const restored = await this.#secret.write(key, secret, { replacesLost: this.#isConfirmed, signal })
    this.#restores++
    this.#restoredAt = clock.elapsed()
    this.#seen = restored
    this.#setObstacle(undefined)
    const message = `the key of the fleet was ${secret ? 'changed' : 'deleted'}; restored by a host that knows it`
    logger.warn({ secret: this.#secret.id }, message)
    const { uid } = restored.metadata
    const object = { ...typeMetaOf(secrets), namespace, name: keySecretName, ...(uid !== undefined && { uid }) }
    event({ type: 'Warning', reason: 'KeyRestored', message, object, byAnyHost: true })
  }

  get #advice(): string {
    const { namespace } = this.#deps
    return (
      `restore it from a backup; if it is lost for good, make it empty, with \`kubectl delete secret -n ${namespace} ${keySecretName}\`` +
      ` and \`kubectl create secret generic -n ${namespace} ${keySecretName}\`: ${consequence}`
    )
  }

  #setObstacle(what: string | undefined): void {
    const { logger } = this.#deps
    const obstacle = what === undefined ? undefined : `secret ${this.#secret.id} ${what}`
    if (obstacle === this.#obstacle) return
    this.#obstacle = obstacle
    if (obstacle !== undefined) logger.error({ secret: this.#secret.id }, `this host cannot lead: ${obstacle}`)
    else logger.info({ secret: this.#secret.id }, 'this host knows the key of the fleet again')
  }
}

const noTokens: Readability = { tokens: 'none', servers: [] }
const readable: Readability = { tokens: 'readable', servers: [] }
const consequence = 'idle servers are then replaced, and matches are Unhealthy until they end'

function some(servers: readonly string[]): string {
  const rest = servers.length - 3
  return `${servers.slice(0, 3).join(', ')}${rest > 0 ? ` and ${rest} more` : ''}`
}

export const keySecretName = 'gamekeeper-key'
const keyBytes = 32
const keyField = 'key'

interface KeySecretDependencies {
  readonly api: KubernetesApi
  /** Namespace of the Secret. */
  readonly namespace: string
  /** API group of the fleet's objects. */
  readonly group: string
  /** API paths of the fleet's servers. */
  readonly serverPaths: readonly string[]
}

/** Whether a key has sealed the tokens that are recorded: `none` if no token is. */
interface Readability {
  readonly tokens: 'readable' | 'unreadable' | 'none'
  /** Servers, as `namespace/name`, whose tokens were sealed with another key. */
  readonly servers: readonly string[]
}

/** Reads and writes the Secret with the fleet's key, and finds out which key has sealed the tokens of servers. */
class KeySecret {
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
    return foundOrUndefined(this.#deps.api.object({ what: `get secret ${this.id}`, method: 'GET', path, signal }))
  }

  /**
   * Writes the key in place of `found`. Rejects with `conflict` if the Secret has changed since `found` was read. Every host may do this, also before any
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
   * Whether one of the recorded tokens can be read with this key. Hosts hold the same key, so one is usually enough. A token
   * that was replaced by hand says nothing about the key.
   */
  async readability(key: Buffer | undefined, signal: AbortSignal): Promise<Readability> {
    const servers: string[] = []
    for (const path of this.#deps.serverPaths) {
      let sealed: readonly KubeObject[] = []
      for (const limit of [sampleSize, undefined]) {
        const items = await this.#list(path, limit, signal)
        sealed = items.filter((server) => isSealed(stringAt(objectAt(server, 'spec'), 'token') ?? ''))
        if (key && sealed.some((server) => isReadable(key, objectAt(server, 'spec')))) {
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
  return unseal(key, stringAt(spec, 'token') ?? '', stringAt(spec, 'uid') ?? '') !== undefined
}

/** Undefined if the Secret contains no key. */
function keyIn(secret: KubeObject | undefined): Buffer | undefined {
  const text = isObject(secret?.['data']) ? secret['data'][keyField] : undefined
  const key = Buffer.from(typeof text === 'string' ? text : '', 'base64')
  return key.length === keyBytes ? key : undefined
}

/** An empty Secret is how an operator asks for a new key. */
function isEmpty(secret: KubeObject): boolean {
  return !isObject(secret['data']) || Object.keys(secret['data']).length === 0
}

function fingerprint(key: Buffer): string {
  return createHash('sha256').update(key).digest('hex').slice(0, 16)
}

interface TokenEncryptionDependencies {
  readonly clock: Clock
  readonly logger: Logger
  /** Undefined while this host knows no key. */
  readonly key: () => Buffer | undefined
}

/**
 * Encrypts server tokens with a key kept in a Secret, so that users who may read servers but not secrets cannot send
 * heartbeats on a server's behalf.
 */
export function tokenEncryption({ clock, logger, key }: TokenEncryptionDependencies): TokenKey {
  const replacement = Buffer.from(clock.randomBytes(keyBytes))
  return {
    encrypt(token, uid) {
      const current = key()
      if (!current) throw new FleetError('unavailable', 'this host does not know the key of the fleet')
      return seal(current, token, uid, clock.randomBytes(nonceBytes))
    },
    isGenuine(encrypted, uid) {
      const current = key()
      return current !== undefined && unseal(current, encrypted, uid) !== undefined
    },
    decrypt(encrypted, uid) {
      const current = key()
      const token = current && unseal(current, encrypted, uid)
      if (token !== undefined) return { token }
      if (current) logger.warn({ uid }, 'cannot decrypt a server token: it was encrypted with another key')
      // Unguessable without the key, and the same on every read.
      const text = `in place of ${encrypted} of ${uid}`
      return {
        token: createHmac('sha256', current ?? replacement)
          .update(text)
          .digest('hex'),
        tokenLost: true,
      }
    },
  }
}

const algorithm = 'aes-256-gcm'
const nonceBytes = 12
const tagBytes = 16

/** Seals server tokens with AES-256-GCM, bound to the server's uid. Pure but for the nonce, which the caller brings. */
export function seal(key: Buffer, token: string, uid: string, nonce: Uint8Array): string {
  const cipher = createCipheriv(algorithm, key, nonce).setAAD(Buffer.from(uid))
  const encrypted = Buffer.concat([cipher.update(token, 'utf8'), cipher.final()])
  return Buffer.concat([nonce, cipher.getAuthTag(), encrypted]).toString('base64')
}

/** Whether the text can be a sealed token, with whatever key. */
function isSealed(text: string): boolean {
  return /^[\w+/]+=*$/.test(text) && Buffer.from(text, 'base64').length > nonceBytes + tagBytes
}

/** Undefined if the token was sealed with another key or for another server. */
function unseal(key: Buffer, sealed: string, uid: string): string | undefined {
  try {
    const bytes = Buffer.from(sealed, 'base64')
    const decipher = createDecipheriv(algorithm, key, bytes.subarray(0, nonceBytes)).setAAD(Buffer.from(uid))
    decipher.setAuthTag(bytes.subarray(nonceBytes, nonceBytes + tagBytes))
    const text = [decipher.update(bytes.subarray(nonceBytes + tagBytes)), decipher.final()]
    return Buffer.concat(text).toString('utf8')
  } catch {
    return undefined
  }
}
