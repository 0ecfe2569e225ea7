/** Invariants of the stored records, checked synchronously at each write. */
import { type Build, keyOf, type Server } from '../../../src/rules/model/resources.js'
import { severalBuildName } from '../context.js'
import type { StoreListener, StoreModel } from '../models/store-model.js'
import type { Lease } from '../world/lease.js'
import type { World } from '../world/world.js'

interface CrashHistory {
  /** Uids of servers whose record showed a crash. */
  readonly crashed: Set<string>
  /** Uids from `crashed` whose record was deleted. */
  readonly deleted: Set<string>
  /** Number of further crashes by servers from `deleted` after a late call recreated their record. */
  crashedAgain: number
  /** Number of externally deleted server records. Whether such a server had crashed may be known only to a host. */
  deletedExternally: number
  /** Number of externally deleted server records that showed a crash. It counts only if a leader knew about it. */
  crashedAndDeletedExternally: number
  /** The crash count in the build's record. */
  counted: number
  /** Whether the build was deleted, after which its crash count no longer matters. */
  buildDeleted: boolean
}

export class Records implements Omit<StoreListener, 'detailWritten' | 'detailRemoved'> {
  /** Uids of all servers that ever had a record. */
  readonly serverUids = new Set<string>()
  /** Crash history by build uid. */
  readonly #crashes = new Map<string, CrashHistory>()
  readonly #bySession = new Map<string, Server>()
  /** The sessions that games have ended and that the store still has, by uid. */
  readonly #ended = new Map<string, string>()
  /**
   * Uids of servers that got a session from a late write by a former leader. Before the current leader notices, it may
   * allocate another server for the same session; it then removes the session from this one.
   */
  readonly #lateAllocations = new Set<string>()
  /** Uids of servers that were Terminating in the store, or whose record was deleted externally. */
  readonly #terminated = new Set<string>()

  /** Uids of servers whose record was deleted. */
  readonly #deleted = new Set<string>()

  constructor(
    readonly world: World,
    readonly deps: () => { readonly lease: Lease; readonly store: StoreModel },
  ) {}

  /** True if a late write has created the record of a server again. */
  isRecreated({ uid }: Server): boolean {
    return this.#deleted.has(uid)
  }

  /** Called when a game ends its session and goes on. */
  sessionEnded(uid: string, sessionID: string): void {
    this.#ended.set(uid, sessionID)
  }

  /** The minimum and maximum number of crashes of a build, according to its server records. */
  crashRange(buildUid: string): readonly [number, number] {
    const history = this.#historyOf(buildUid)
    const { crashed, crashedAgain, deletedExternally, crashedAndDeletedExternally } = history
    return [crashed.size - crashedAndDeletedExternally, crashed.size + crashedAgain + deletedExternally]
  }

  buildWritten(before: Build | undefined, after: Build): void {
    const history = this.#historyOf(after.uid)
    history.counted = after.crashes
    if (before?.uid === after.uid && after.crashes < before.crashes) {
      this.world.violate(`the crash count decreased: ${after.name} has ${after.crashes} after ${before.crashes}`)
    }
    const [, most] = this.crashRange(after.uid)
    if (after.crashes > most) {
      this.world.violate(`a crash was counted twice: ${after.name} counts ${after.crashes}, but had at most ${most}`)
    }
  }

  serverWritten(before: Server | undefined, after: Server, late: boolean): void {
    const { world } = this
    this.serverUids.add(after.uid)
    if (after.state === 'Terminating') this.#terminated.add(after.uid)
    if (after.ending?.crash && !before?.ending?.crash) this.#crashed(after)
    if ((after.state === 'Active') !== (after.sessions[0] !== undefined) && after.state !== 'Terminating') {
      world.violate(`${after.name} is ${after.state} in the store with session ${after.sessions[0]?.id ?? 'none'}`)
    }
    if (before) this.#checkChange(before, after)
    if (before?.sessions[0] && !after.sessions[0]) this.#removeSession(before)
    // Servers with several sessions have invariants of their own.
    if (!after.sessions[0] || after.build === severalBuildName) return
    if (late && !before?.sessions[0]) this.#lateAllocations.add(after.uid)
    const other = this.#bySession.get(after.sessions[0].id)
    if (other && other.uid !== after.uid && other.state !== 'Terminating') {
      if (this.#lateAllocations.has(after.uid)) return
      if (!this.#lateAllocations.has(other.uid)) {
        world.violate(
          `one session, two servers: the store has ${after.sessions[0].id} on ${other.name} and ${after.name}`,
        )
      }
    }
    this.#bySession.set(after.sessions[0].id, after)
  }

  #crashed({ buildUid, uid }: Server): void {
    const history = this.#historyOf(buildUid)
    if (history.deleted.has(uid)) history.crashedAgain++
    history.crashed.add(uid)
  }

  #checkChange(before: Server, after: Server): void {
    const { world } = this
    if (before.uid !== after.uid) world.violate(`${after.name} was overwritten by another server`)
    // A record may lose its session in three cases: its game has ended the session and goes on; the server terminates and the session's write was never acknowledged, or
    // the session was allocated to another server before the leader noticed the late write. In the last case, the same
    // write may already give the server another session.
    const dropped =
      (!after.sessions[0] && after.state === 'Terminating') ||
      this.#hasOtherServer(before) ||
      this.#isEnd(before, after)
    const isLost = before.sessions[0]?.id !== after.sessions[0]?.id && after.build !== severalBuildName
    if (before.sessions[0] && isLost && !dropped) {
      world.violate(
        `${after.name} lost its session ${before.sessions[0].id} in the store; it has ${after.sessions[0]?.id ?? 'none'} now`,
      )
    }
    if (before.state === 'Terminating' && after.state !== 'Terminating') {
      world.violate(`${after.name} went from Terminating to ${after.state} in the store`)
    }
  }

  /** Each end of a session removes it once. */
  #isEnd({ uid, sessions: [session] }: Server, after: Server): boolean {
    if (after.sessions[0] || after.state !== 'StandingBy' || this.#ended.get(uid) !== session?.id) return false
    this.#ended.delete(uid)
    return true
  }

  /** True also if the leader is just giving the session to another server. */
  #hasOtherServer({ uid, sessions: [session] }: Server): boolean {
    if (!session || !this.#lateAllocations.has(uid)) return false
    if (this.#bySession.get(session.id)?.uid !== uid) return true
    const { lease, store } = this.deps()
    return lease.leader !== undefined && store.allocations.sessionsInFlight(lease.leader).has(session.id)
  }

  serverRemoved(before: Server, external: boolean): void {
    this.#deleted.add(before.uid)
    if (external) return this.#deletedExternally(before)
    // A late create may have recreated the record of a deleted server, so only servers that never terminated are checked.
    if (!this.#terminated.has(before.uid))
      this.world.violate(`the record of ${before.name} was deleted while it was ${before.state}`)
    this.#removeSession(before)
    const history = this.#historyOf(before.buildUid)
    if (before.ending?.crash) history.deleted.add(before.uid)
    if (history.deleted.size > history.counted && !history.buildDeleted) {
      this.world.violate(`a crash was not counted: ${keyOf(before)} was deleted, its build counts ${history.counted}`)
    }
  }

  #deletedExternally(before: Server): void {
    this.#removeSession(before)
    this.#terminated.add(before.uid)
    const history = this.#historyOf(before.buildUid)
    history.deletedExternally++
    if (before.ending?.crash) history.crashedAndDeletedExternally++
  }

  buildRemoved(before: Build): void {
    this.#historyOf(before.uid).buildDeleted = true
  }

  #removeSession({ sessions: [session], uid }: Server): void {
    if (session && this.#bySession.get(session.id)?.uid === uid) this.#bySession.delete(session.id)
  }

  #historyOf(buildUid: string): CrashHistory {
    const existing = this.#crashes.get(buildUid)
    if (existing) return existing
    const history = {
      crashed: new Set<string>(),
      deleted: new Set<string>(),
      crashedAgain: 0,
      deletedExternally: 0,
      crashedAndDeletedExternally: 0,
      counted: 0,
      buildDeleted: false,
    }
    this.#crashes.set(buildUid, history)
    return history
  }
}
