/** What must be true of the records in the store, in the very instant in which one is written. */
import { type Build, keyOf, type Server } from '../../../rules/model/resources.js'
import type { StoreListener } from '../store-model.js'
import type { World } from '../world.js'

interface CrashBook {
  /** Uids of servers of a build whose record told of a crash. */
  readonly told: Set<string>
  /** Those of them whose record is gone. */
  readonly gone: Set<string>
  /** How often one of these crashed once more: a late call had created its record again, and nobody could know it. */
  again: number
  /** How many records of its servers were removed by hand: whether they had crashed, only a host may know. */
  taken: number
  /** Those of them that told of a crash. It is counted, unless nobody led who knew it. */
  takenTold: number
  /** What the build's record counts. */
  counted: number
  /** The build itself is gone: its crashes concern nobody. */
  deleted: boolean
}

export class Records implements StoreListener {
  /** Uids of all servers that ever had a record. */
  readonly known = new Set<string>()
  /** By uid of the build. */
  readonly #crashes = new Map<string, CrashBook>()
  readonly #bySession = new Map<string, Server>()
  /**
   * Uids of servers that were given a session by a write that came late. The next leader cannot know of it before it meets
   * it, and may have given that session another server by then: nobody is told of this one, and it is taken back.
   */
  readonly #strays = new Set<string>()
  /** Uids of servers whose end was on record once, or whose record somebody has removed. */
  readonly #ended = new Set<string>()

  constructor(readonly world: World) {}

  /** Crashed servers of a build, as their records told: how many at least and at most. */
  crashesOf(buildUid: string): readonly [number, number] {
    const { told, again, taken, takenTold } = this.#book(buildUid)
    return [told.size - takenTold, told.size + again + taken]
  }

  buildWritten(before: Build | undefined, after: Build): void {
    const book = this.#book(after.uid)
    book.counted = after.crashes
    if (before?.uid === after.uid && after.crashes < before.crashes) {
      this.world.breach(`crashes were forgotten: ${after.name} has ${after.crashes} after ${before.crashes}`)
    }
    const [, most] = this.crashesOf(after.uid)
    if (after.crashes > most) {
      this.world.breach(`a crash was counted twice: ${after.name} counts ${after.crashes}, and had ${most}`)
    }
  }

  serverWritten(before: Server | undefined, after: Server, late: boolean): void {
    const { world } = this
    this.known.add(after.uid)
    if (after.state === 'Terminating') this.#ended.add(after.uid)
    if (after.ending?.crash && !before?.ending?.crash) this.#crashed(after)
    if ((after.state === 'Active') !== (after.session !== undefined) && after.state !== 'Terminating') {
      world.breach(`${after.name} is ${after.state} in the store with session ${after.session?.id ?? 'none'}`)
    }
    if (before) this.#checkStep(before, after)
    if (before?.session && !after.session) this.#forget(before)
    if (!after.session) return
    if (late && !before?.session) this.#strays.add(after.uid)
    const other = this.#bySession.get(after.session.id)
    if (other && other.uid !== after.uid && other.state !== 'Terminating') {
      if (this.#strays.has(after.uid)) return
      if (!this.#strays.has(other.uid)) {
        world.breach(`one session, two servers: ${after.session.id} is on ${other.name} and ${after.name} in the store`)
      }
    }
    this.#bySession.set(after.session.id, after)
  }

  #crashed({ buildUid, uid }: Server): void {
    const book = this.#book(buildUid)
    if (book.gone.has(uid)) book.again++
    book.told.add(uid)
  }

  #checkStep(before: Server, after: Server): void {
    const { world } = this
    if (before.uid !== after.uid) world.breach(`${after.name} was overwritten by another server`)
    // Only where it ends may a session be dropped: one whose write was not answered and that nobody was told of; or one
    // that was given another server before this was known.
    const dropped = !after.session && (after.state === 'Terminating' || this.#isElsewhere(before))
    if (before.session && before.session.id !== after.session?.id && !dropped) {
      world.breach(`${after.name} lost session ${before.session.id} to ${after.session?.id ?? 'nobody'} in the store`)
    }
    if (before.state === 'Terminating' && after.state !== 'Terminating') {
      world.breach(`${after.name} went from Terminating to ${after.state} in the store`)
    }
  }

  #isElsewhere({ uid, session }: Server): boolean {
    return this.#strays.has(uid) && session !== undefined && this.#bySession.get(session.id)?.uid !== uid
  }

  serverRemoved(before: Server, byHand: boolean): void {
    if (byHand) return this.#taken(before)
    // A call that created it may have taken effect again, long after it had failed and the server was gone.
    if (!this.#ended.has(before.uid)) this.world.breach(`the record of ${before.name} was removed: ${before.state}`)
    this.#forget(before)
    const book = this.#book(before.buildUid)
    if (before.ending?.crash) book.gone.add(before.uid)
    if (book.gone.size > book.counted && !book.deleted) {
      this.world.breach(`a crash was not counted: ${keyOf(before)} is gone, and its build counts ${book.counted}`)
    }
  }

  #taken(before: Server): void {
    this.#forget(before)
    this.#ended.add(before.uid)
    const book = this.#book(before.buildUid)
    book.taken++
    if (before.ending?.crash) book.takenTold++
  }

  buildRemoved(before: Build): void {
    this.#book(before.uid).deleted = true
  }

  /** Its session, if it has one, is on no record any more. */
  #forget({ session, uid }: Server): void {
    if (session && this.#bySession.get(session.id)?.uid === uid) this.#bySession.delete(session.id)
  }

  #book(buildUid: string): CrashBook {
    const known = this.#crashes.get(buildUid)
    if (known) return known
    const book = {
      told: new Set<string>(),
      gone: new Set<string>(),
      again: 0,
      taken: 0,
      takenTold: 0,
      counted: 0,
      deleted: false,
    }
    this.#crashes.set(buildUid, book)
    return book
  }
}
