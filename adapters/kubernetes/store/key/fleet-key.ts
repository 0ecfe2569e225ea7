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
import { isEmpty, keyBytes, keyIn, KeySecret, type KeySecretDependencies, keySecretName } from './key-secret.js'

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

export class FleetKey {
  readonly #deps: FleetKeyDependencies
  readonly #secret: KeySecret
  readonly #closing = new AbortController()
  #key: Buffer | undefined
  #obstacle: string | undefined
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
    this.#seen = await this.#secret.read()
    try {
      await this.#settle(this.#seen)
    } catch (error) {
      // Another host has written the Secret first.
      if (!FleetError.is(error, 'conflict')) throw error
      this.#seen = await this.#secret.read()
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
          const message = 'not allowed to list and watch the Secret with the key: it is not restored when it is lost'
          logger.warn({ secret: this.#secret.id }, message)
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
      const seen = this.#seen
      try {
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
    const found = keyIn(secret)
    if (found && this.#key?.equals(found) && this.#obstacle === undefined) return
    if (this.#key && !(found && this.#key.equals(found))) return this.#settleDifference(this.#key, secret, found)
    if (found && secret) return this.#adopt(found, secret)
    // Only an empty Secret says that the key of existing servers is lost for good.
    const isDeclaredLost = secret !== undefined && isEmpty(secret)
    if (isDeclaredLost || (await this.#secret.readability(undefined)) === 'none') {
      const key = Buffer.from(this.#deps.clock.randomBytes(keyBytes))
      this.#seen = await this.#secret.write(key, secret, isDeclaredLost)
      this.#key = key
      return this.#setObstacle(undefined)
    }
    this.#setObstacle(
      `${secret ? `contains no key of ${keyBytes} bytes` : 'is missing'}, and tokens of servers were sealed with it`,
    )
  }

  /** The Secret contains another key than this host knows, or none. */
  async #settleDifference(own: Buffer, secret: KubeObject | undefined, found: Buffer | undefined): Promise<void> {
    const readable = this.#deps.isLeading() ? 'readable' : await this.#secret.readability(own)
    if (readable === 'readable' || (readable === 'none' && !found)) return this.#restore(own, secret)
    if (found && secret) return this.#adopt(found, secret)
    this.#setObstacle('is missing, and tokens of servers were sealed with another key than this host knows')
  }

  async #adopt(found: Buffer, secret: KubeObject): Promise<void> {
    const isReadable = (await this.#secret.readability(found)) !== 'unreadable'
    this.#key = found
    if (isReadable || this.#secret.replacesLost(secret, found)) return this.#setObstacle(undefined)
    this.#setObstacle('contains another key than the tokens of servers were sealed with')
  }

  async #restore(key: Buffer, secret: KubeObject | undefined): Promise<void> {
    const { clock, event, logger, namespace } = this.#deps
    const restored = await this.#secret.write(key, secret, false)
    this.#seen = restored
    this.#setObstacle(undefined)
    const message = `the key of the fleet was ${secret ? 'changed' : 'deleted'}; restored by a host that knows it`
    logger.warn({ secret: this.#secret.id }, message)
    const { uid } = restored.metadata
    const object = { ...typeMetaOf(secrets), namespace, name: keySecretName, ...(uid !== undefined && { uid }) }
    event({ type: 'Warning', reason: 'KeyRestored', message, at: clock.now(), object, byAnyHost: true })
  }

  #setObstacle(what: string | undefined): void {
    const { logger, namespace } = this.#deps
    const advice =
      `restore it from a backup; if it is lost for good, make it empty, with \`kubectl delete secret -n ${namespace} ${keySecretName}\`` +
      ` and \`kubectl create secret generic -n ${namespace} ${keySecretName}\`: idle servers are then replaced, and matches are Unhealthy until they end`
    const obstacle = what === undefined ? undefined : `secret ${this.#secret.id} ${what}: ${advice}`
    if (obstacle === this.#obstacle) return
    this.#obstacle = obstacle
    if (obstacle !== undefined) logger.error({ secret: this.#secret.id }, `this host cannot lead: ${obstacle}`)
    else logger.info({ secret: this.#secret.id }, 'this host knows the key of the fleet again')
  }
}
