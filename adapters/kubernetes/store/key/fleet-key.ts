/**
 * The key of the fleet, which every host remembers. A Secret that is deleted or edited is restored by any host whose key reads the
 * recorded tokens. A host that cannot read them does not lead: it would replace every idle server, and hear no match.
 */
import type { Clock } from '../../../../src/contracts/clock.js'
import { FleetError } from '../../../../src/contracts/errors.js'
import type { Logger } from '../../../../src/contracts/logger.js'
import { pauseMs } from '../../../../src/rules/lifecycle/backoff.js'
import { statusOf } from '../../client/api-errors.js'
import { type KubeObject, secrets, typeMetaOf } from '../../client/kube-objects.js'
import { watchCollection } from '../../client/watch.js'
import type { KubeEvent } from '../display/kube-event.js'
import {
  isEmpty,
  keyBytes,
  keyIn,
  KeySecret,
  type KeySecretDependencies,
  keySecretName,
  type Readability,
} from './key-secret.js'

export interface FleetKeyDependencies extends KeySecretDependencies {
  readonly clock: Clock
  readonly logger: Logger
  /** Whether this host leads, so that the servers' tokens are sealed with its key. */
  readonly isLeading: () => boolean
  /** Shows what happened to the Secret. */
  readonly event: (event: KubeEvent) => void
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
    const { api, clock, logger } = this.#deps
    const query = { fieldSelector: `metadata.name=${keySecretName}` }
    this.#unwatch = watchCollection(
      { api, clock, logger, what: `secret ${this.#secret.id}`, path: this.#secret.path, query },
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
    event({ type: 'Warning', reason: 'KeyRestored', message, at: clock.now(), object, byAnyHost: true })
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
