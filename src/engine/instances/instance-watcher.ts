/**
 * Keeps what is known of instances equal to what the backend has: its events as they come, its full list at the start,
 * after every hole in the events, and now and then. Instances without a record are ended, unless a match may be
 * running on them.
 */
import type { Instance } from '../../contracts/backend.js'
import { messageOf } from '../../contracts/errors.js'
import { afterFailure, noBackoff } from '../../rules/lifecycle/backoff.js'
import type { GameState, Heartbeat, HeartbeatAnswer } from '../../rules/game/heartbeat.js'
import { transition } from '../../rules/lifecycle/lifecycle.js'
import { readSessionHostId } from '../../rules/model/names.js'
import { keyOf, type Ref, type Server } from '../../rules/model/resources.js'
import type { Versioned } from '../../contracts/store.js'
import { withTimeout } from '../../util/with-timeout.js'
import { backoffLimits, type EngineContext, refOf } from '../context.js'
import type { ServerEntry } from '../state/entries.js'
import { lookUp } from '../state/inventory.js'

export interface InstanceWatcher {
  /** Listens to the backend and reads its first list. Rejects when that cannot be had. */
  start(): Promise<void>
  stop(): void
  /** Takes in what is known of an instance. */
  observe(instance: Instance): void
  /** What a heartbeat of an id that no server has is answered. */
  unknownHeartbeat(hostId: string, claims: GameState): 'Continue' | 'Terminate'
  /** Ends orphans that nobody plays on. Called once a second. */
  destroyOrphans(): void
  /** The host was away and heard nobody: orphans get the full allowance again. */
  restartTimers(): void
}

export interface InstanceWatcherDependencies {
  /** The process of this server runs: its first heartbeat is awaited from now on. */
  readonly running: (entry: ServerEntry) => void
  readonly heartbeat: (sessionHostId: string, heartbeat: Heartbeat) => HeartbeatAnswer
  /** It does not come to run by itself. */
  readonly stuck: (entry: ServerEntry, reason: string) => void
  /** A record that another host wrote after this one read the store. */
  readonly adopt: (server: Versioned<Server>) => void
}

interface Orphan {
  instance: Instance
  /** Elapsed ms at which it was found, or last claimed to be Active. */
  quietSince: number
  busy: boolean
}

export function instanceWatcher(ctx: EngineContext, parts: InstanceWatcherDependencies): InstanceWatcher {
  const { backend, clock, inventory, limits } = ctx
  const orphans = new Map<string, Orphan>()
  let observations = 0
  let listing: Promise<void> | undefined
  let listAgain = false
  let away = noBackoff
  let cancelTimer = () => {}
  let unwatch = () => {}
  let stopped = false

  function observe(instance: Instance): void {
    const entry = lookUp(inventory.servers, instance.ref)
    if (!entry || entry.record.uid !== instance.uid) return meetOrphan(instance)
    const ranBefore = entry.instance?.phase === 'running'
    entry.instance = instance
    entry.createRequested = true
    entry.observationSeq = ++observations
    const now = clock.now()
    switch (instance.phase) {
      case 'pending':
        if (instance.blocked && instance.reason !== entry.pendingReason) parts.stuck(entry, instance.reason ?? '')
        entry.pendingReason = instance.reason
        return
      case 'running': {
        entry.pendingReason = undefined
        if (!ranBefore) parts.running(entry)
        const { address, node, ports } = instance
        inventory.update(
          entry,
          transition(
            entry.record,
            {
              type: 'running',
              ...(address !== undefined && { address }),
              ...(node !== undefined && { node }),
              ports,
            },
            now,
          ),
        )
        return
      }
      case 'exited': {
        const { exitCode, reason, interrupted } = instance
        const event = {
          type: 'exited' as const,
          ...(exitCode !== undefined && { exitCode }),
          ...(reason !== undefined && { reason }),
          ...(interrupted && { interrupted }),
        }
        inventory.update(entry, transition(entry.record, event, now))
        ctx.touch(entry)
      }
    }
  }

  function gone(ref: Ref, uid: string): void {
    const orphan = orphans.get(keyOf(ref))
    if (orphan?.instance.uid === uid) orphans.delete(keyOf(ref))
    const entry = lookUp(inventory.servers, ref)
    if (entry?.record.uid === uid) missing(entry)
  }

  function missing(entry: ServerEntry): void {
    // One that nobody has seen yet is simply asked for.
    const wasThere = entry.instance !== undefined || entry.record.state !== 'Pending'
    entry.instance = undefined
    entry.observationSeq = ++observations
    if (wasThere) {
      inventory.update(entry, transition(entry.record, { type: 'gone' }, clock.now()))
    }
    ctx.touch(entry)
  }

  async function list(): Promise<void> {
    const begun = observations
    // One that only now comes to life, by its heartbeat, cannot be missed in this list.
    const expected = [...inventory.servers.values()].filter(isExpected)
    const instances = await withTimeout(clock, limits.callTimeoutMs, 'the list of instances', (signal) =>
      backend.list({ signal }),
    )
    if (stopped) return
    const seen = new Set<string>()
    for (const instance of instances) {
      const key = keyOf(instance.ref)
      const entry = inventory.servers.get(key)
      if (entry?.record.uid === instance.uid) seen.add(key)
      // What was observed since the listing began is newer than the list.
      if (!entry || entry.observationSeq <= begun) observe(instance)
    }
    const present = new Set(instances.map((instance) => instance.uid))
    for (const [key, orphan] of orphans) if (!present.has(orphan.instance.uid)) orphans.delete(key)
    const isMissing = (entry: ServerEntry) => {
      const key = keyOf(entry.record)
      if (stopped || seen.has(key) || inventory.servers.get(key) !== entry) return false
      return entry.observationSeq <= begun && isExpected(entry)
    }
    await Promise.all(expected.filter(isMissing).map((entry) => makeSure(entry, isMissing)))
  }

  /** It is missing from a list. Without an answer it stays as it is known, until the next list. */
  async function makeSure(entry: ServerEntry, isMissing: (entry: ServerEntry) => boolean): Promise<void> {
    const { uid, name, ports = [] } = entry.record
    const known = { ref: refOf(entry.record), uid, ports }
    let found: Instance | undefined
    try {
      if (backend.find) {
        found = await withTimeout(clock, limits.callTimeoutMs, `the search for ${name}`, async (signal) =>
          backend.find?.(known, { signal }),
        )
      }
    } catch (error) {
      const server = keyOf(entry.record)
      ctx.logger.debug({ server, error: messageOf(error) }, `it is not known yet whether ${server} is still there`)
      return
    }
    if (!isMissing(entry)) return
    if (found) observe(found)
    else missing(entry)
  }

  /** Lists now, or once more after the listing under way. */
  function relist(): void {
    if (stopped) return
    if (listing) {
      listAgain = true
      return
    }
    cancelTimer()
    listing = list()
      .then(backAgain, (error: unknown) => {
        if (away.failures === 0) {
          const message = `the ${backend.name} backend does not answer: ${messageOf(error)}`
          ctx.logger.warn({ error: messageOf(error) }, message)
          ctx.emitter.emit({ type: 'BackendUnavailable', at: clock.now(), message })
        }
        away = afterFailure(away, clock.elapsed(), backoffLimits(ctx))
      })
      .finally(() => {
        listing = undefined
        if (stopped) return
        const pauseMs = away.failures > 0 ? away.until - clock.elapsed() : limits.resyncIntervalMs
        if (listAgain && away.failures === 0) {
          listAgain = false
          relist()
        } else listAfter(Math.max(0, pauseMs))
      })
  }

  /** Instead of what was planned before: a timer that is forgotten would outlive the fleet, and its process with it. */
  function listAfter(ms: number): void {
    cancelTimer()
    cancelTimer = stopped ? () => {} : clock.after(ms, relist)
  }

  function backAgain(): void {
    if (away.failures === 0) return
    away = noBackoff
    const message = `the ${backend.name} backend answers again`
    ctx.logger.info({}, message)
    ctx.emitter.emit({ type: 'BackendRecovered', at: clock.now(), message })
  }

  function meetOrphan(instance: Instance): void {
    const key = keyOf(instance.ref)
    const known = orphans.get(key)
    if (known?.instance.uid === instance.uid) {
      known.instance = instance
      return
    }
    orphans.set(key, { instance, quietSince: clock.elapsed(), busy: false })
    const message = `instance ${key} has no record; it is ended unless a match is running on it`
    ctx.logger.warn({ instance: key }, message)
    ctx.emitter.emit({ type: 'OrphanFound', at: clock.now(), instance: instance.ref, message })
  }

  async function endOrphan(key: string, orphan: Orphan): Promise<void> {
    orphan.busy = true
    try {
      const { ref, uid, phase } = orphan.instance
      const kept = await ctx.store.servers.get(ref)
      if (stopped) return
      if (kept?.record.uid === uid) {
        orphans.delete(key)
        parts.adopt(kept)
        observe(orphan.instance)
        return
      }
      const graceMs = phase === 'exited' ? 0 : limits.silenceMs
      await ctx.destroying(() =>
        withTimeout(clock, graceMs + limits.callTimeoutMs, `the end of ${ref.name}`, (signal) =>
          backend.destroy(ref, uid, { graceMs, signal }),
        ),
      )
      if (orphans.get(key) === orphan) orphans.delete(key)
    } catch (error) {
      orphan.quietSince = clock.elapsed()
      ctx.logger.warn({ instance: key, error: messageOf(error) }, 'an orphan could not be ended yet')
    } finally {
      orphan.busy = false
    }
  }

  return {
    async start() {
      unwatch = backend.watch({
        changed: (instance) => {
          if (!stopped) observe(instance)
        },
        gone: (ref, uid) => {
          if (!stopped) gone(ref, uid)
        },
        resync: relist,
        heartbeat: parts.heartbeat,
      })
      await list()
      listAfter(limits.resyncIntervalMs)
    },

    stop() {
      stopped = true
      cancelTimer()
      unwatch()
    },

    observe,

    unknownHeartbeat(hostId, claims) {
      const name = readSessionHostId(hostId)?.name
      if (claims !== 'Active' || name === undefined) return 'Terminate'
      for (const orphan of orphans.values()) {
        if (orphan.instance.ref.name !== name) continue
        orphan.quietSince = clock.elapsed()
        return 'Continue'
      }
      // Its token is none that this host knows, as when a store has lost it. A match is not ended for that.
      return inventory.isPlaying(name) ? 'Continue' : 'Terminate'
    },

    destroyOrphans() {
      const now = clock.elapsed()
      for (const [key, orphan] of orphans) {
        const over = orphan.instance.phase === 'exited' || now - orphan.quietSince >= limits.silenceMs
        if (over && !orphan.busy) void endOrphan(key, orphan)
      }
    },

    restartTimers() {
      const now = clock.elapsed()
      for (const orphan of orphans.values()) orphan.quietSince = now
    },
  }
}

/** A server whose instance must be there: it ran, and nobody has ended it yet. */
function isExpected(entry: ServerEntry): boolean {
  return entry.instance !== undefined || (entry.record.state !== 'Pending' && entry.record.state !== 'Terminating')
}
