/**
 * Lets a game take its own server for a session, without a matchmaker. It is an allocation that names its server: the session is durable
 * before the game is answered, and has at most one server, even if a caller requests the same session.
 */
import { FleetError } from '../contracts/errors.js'
import type { Heartbeat } from '../rules/game/heartbeat.js'
import type { OwnAllocationRequest } from '../rules/model/allocation-request.js'
import { endedNumber } from '../rules/lifecycle/server-sessions.js'
import { keyOf, type Server } from '../rules/model/resources.js'
import { sessionKey } from '../rules/model/names.js'
import { shown } from '../rules/validation/problem.js'
import type { Allocator } from './allocation/allocator.js'
import type { EngineContext } from './context.js'
import { LostServer, type ServerWriter } from './persistence/server-writer.js'
import type { ServerEntry } from './state/entries.js'

export interface SelfAllocationDependencies {
  readonly allocator: Pick<Allocator, 'allocate'>
  readonly writer: Pick<ServerWriter, 'save'>
  readonly heartbeat: (hostId: string, heartbeat: Heartbeat) => unknown
}

export class SelfAllocation {
  readonly #ctx: Pick<EngineContext, 'inventory'>
  readonly #deps: SelfAllocationDependencies

  constructor(ctx: Pick<EngineContext, 'inventory'>, deps: SelfAllocationDependencies) {
    this.#ctx = ctx
    this.#deps = deps
  }

  /**
   * Resolves with the session when it is durable; a repeated call finds it. Rejects with `in-use` if the server has or gets another session or is
   * reserved, or if another server has the session; `not-found` if the server terminates; and otherwise like an allocation.
   */
  async allocate(entry: ServerEntry, request: OwnAllocationRequest): Promise<string> {
    const { sessionID = ownSessionID(entry.record, request), sessionCookie, initialPlayers } = request
    this.#check(entry, sessionID)
    await this.#becomeReady(entry, request)
    this.#check(entry, sessionID)
    if (!hasSession(entry.record, sessionID)) {
      if (entry.record.reservedUntil !== undefined) throw inUseError(entry, 'is reserved')
      if (entry.record.state === 'Active') throw inUseError(entry, 'has another session')
      const key = sessionKey(sessionID)
      const isOthers = entry.places.some((place) => place.state === 'held' || place.key !== key)
      if (isOthers) throw inUseError(entry, 'is being allocated')
    }
    const { SessionID } = await this.#deps.allocator.allocate(
      {
        server: entry.ref,
        sessionID,
        ...(sessionCookie !== undefined && { sessionCookie }),
        ...(initialPlayers && { initialPlayers }),
      },
      { waitMs: 0 },
    )
    // A caller may have been given another server for this session meanwhile.
    this.#check(entry, sessionID)
    if (!hasSession(entry.record, sessionID)) throw inUseError(entry, 'has another session')
    return SessionID
  }

  /** The request says that the game is ready, and may come before the heartbeat that does. A caller who waits already gets the server first. */
  async #becomeReady(entry: ServerEntry, { endedSession }: OwnAllocationRequest): Promise<void> {
    const { state, health } = entry.record
    if (state !== 'Pending' && state !== 'Initializing' && !endedSession) return
    const isHealthy = health !== 'Unhealthy'
    this.#deps.heartbeat(entry.hostId, {
      state: 'StandingBy',
      health: isHealthy ? 'Healthy' : 'Unhealthy',
      players: endedSession ? [] : entry.players,
      ...(endedSession && { endedSession }),
      ...(entry.isShared && { several: { running: [], ended: [] } }),
    })
    // The end of its last session has to be durable before it gets the next one.
    while (entry.ends && entry.record.state === 'Active') await this.#save(entry)
  }

  async #save(entry: ServerEntry): Promise<void> {
    await this.#deps.writer.save(entry).catch((error: unknown) => {
      if (!(error instanceof LostServer)) throw error
    })
  }

  #check(entry: ServerEntry, sessionID: string): void {
    if (entry.record.state === 'Terminating') {
      throw new FleetError('not-found', `server ${keyOf(entry.ref)} is terminating`)
    }
    const holder = this.#ctx.inventory.serverBySession(sessionID)
    if (holder && holder !== entry) {
      throw new FleetError('in-use', `session ${shown(sessionID)} has another server: ${keyOf(holder.ref)}`)
    }
  }
}

/** The same for a repeated call. No other server has it, and no other session of this one. */
function ownSessionID(server: Server, { endedSession }: OwnAllocationRequest): string {
  return `${server.name}-${server.uid}-${Math.max(endedNumber(server), endedSession?.number ?? 0) + 1}`
}

function hasSession({ sessions: [session] }: Server, sessionID: string): boolean {
  return session !== undefined && sessionKey(session.id) === sessionKey(sessionID)
}

function inUseError({ ref }: ServerEntry, why: string): FleetError {
  return new FleetError('in-use', `server ${keyOf(ref)} ${why}, so its game cannot take it`)
}
