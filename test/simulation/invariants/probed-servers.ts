/**
 * Invariants of games without an SDK: no lost answer ends a session, nor makes a server Unhealthy before as many in a row are lost as its build
 * says. A session ends by a line of the log only if its game has printed that, and for lack of players only after some were there, and only by what the game has said itself. A game is told of its own
 * session, at least once, and again only if it is not known whether the last time has worked. A game that starts with its session is asked nothing
 * before, and its session is confirmed only once it has answered.
 */
import type { EventOf } from '../../../src/contracts/events.js'
import { gameDefaults, type GameSpec } from '../../../src/rules/game/probes.js'
import { startsWithSession } from '../actors/probed-specs.js'
import { type BuildSpec, keyOf, type Ref, type Server } from '../../../src/rules/model/resources.js'
import type { BackendModel, ModelInstance, Telling } from '../models/backend-model.js'
import type { Asked, ProberObserver } from '../models/prober-model.js'
import type { StoreModel } from '../models/store-model.js'
import type { Host } from '../world/host.js'
import type { Lease } from '../world/lease.js'
import type { World } from '../world/world.js'

/** Players may have come and gone unseen while so many answers in a row were missing. */
const gapAnswers = 3
/** Until the session of an allocation is in the store, its players may be there already. */
const allocationMs = 10_000
/** How long after its probes have failed a server may be stored as Unhealthy. */
const storedMs = 120_000

/** What a host has heard in one term of one game. */
interface Heard {
  /** The last answers about players without a gap, of which none named one. Elapsed ms. */
  readonly empty: number[]
  /** Elapsed ms of the last answer about players. */
  saidAt: number
  /** How many questions about players in a row were not answered. */
  lost: number
  /** How many probes in a row have failed, by what was asked. */
  readonly failures: Record<Asked, number>
}

interface Told {
  readonly by: Host
  readonly term: number
}

export interface ProbedServersDependencies {
  readonly backend: BackendModel
  readonly store: StoreModel
  readonly lease: Lease
}

export class ProbedServers implements ProberObserver {
  /** By host, its term and the uid of the server. */
  readonly #heard = new Map<string, Heard>()
  /** Elapsed ms at which as many probes in a row as make a server Unhealthy were last lost, by uid. */
  readonly #failedAt = new Map<string, number>()
  /** Elapsed ms at which a host last heard of a player, by uid. */
  readonly #playersAt = new Map<string, number>()
  /** Elapsed ms at which the store first had the session of each server, by uid. */
  readonly #activeAt = new Map<string, number>()
  /** Elapsed ms at which the store first had that a game was told, by uid. */
  readonly #toldStoredAt = new Map<string, number>()
  /** The last host that knows that it has told each game, by uid. */
  readonly #toldBy = new Map<string, Told>()
  /** Uids of the servers whose games have been told. */
  readonly #told = new Set<string>()
  /** Uids of the servers whose games have answered since. */
  readonly #answeredSinceTold = new Set<string>()

  constructor(
    readonly world: World,
    readonly deps: () => ProbedServersDependencies,
    readonly observer: {
      readonly heard: (host: Host, instance: ModelInstance) => void
      readonly players: (host: Host, instance: ModelInstance, players: readonly string[]) => void
    },
  ) {}

  asked(host: Host, { spec }: ModelInstance): void {
    if (!startsWithSession(this.world, spec.build.name) || this.#told.has(spec.uid)) return
    const record = this.deps().store.servers.get(keyOf(spec.ref))?.record
    if (record?.uid === spec.uid && record.sessions.length === 0)
      this.world.violate(`${host.name} asks the game of ${spec.ref.name}, which starts with its session`)
  }

  /** Called when a caller learns that the game has its session. */
  confirmed({ spec }: ModelInstance): void {
    if (!startsWithSession(this.world, spec.build.name) || this.#answeredSinceTold.has(spec.uid)) return
    this.world.violate(`the session of ${spec.ref.name} is confirmed before its game has started`)
  }

  answered(host: Host, term: number, instance: ModelInstance, players: readonly string[] | undefined): void {
    const { uid } = instance.spec
    const heard = this.#heardBy(host, term, uid)
    heard.failures[players ? 'players' : 'check'] = 0
    if (this.#told.has(uid)) this.#answeredSinceTold.add(uid)
    if (!players) return this.#outcome(host, instance)
    const { elapsedMs } = this.world
    const isGap = heard.lost >= gapAnswers
    heard.lost = 0
    if (players.length > 0 || isGap) heard.empty.length = 0
    if (players.length === 0) heard.empty.push(elapsedMs)
    heard.saidAt = elapsedMs
    if (players.length > 0) this.#playersAt.set(uid, elapsedMs)
    this.#outcome(host, instance)
    this.observer.players(host, instance, players)
  }

  unanswered(host: Host, term: number, instance: ModelInstance, asked: Asked): void {
    const { uid, build } = instance.spec
    const heard = this.#heardBy(host, term, uid)
    const failures = ++heard.failures[asked]
    if (asked === 'players') heard.lost++
    const game = this.#gameOf(build)
    const decides = game?.liveness ? 'check' : 'players'
    const { failureThreshold } = { ...gameDefaults, ...game }
    if (asked === decides && failures >= failureThreshold) this.#failedAt.set(uid, this.world.elapsedMs)
    this.#outcome(host, instance)
  }

  /** The fleet takes any outcome for a heartbeat. */
  #outcome(host: Host, instance: ModelInstance): void {
    if (!this.#gameOf(instance.spec.build)?.liveness) this.observer.heard(host, instance)
  }

  /** Called when a server's record is written. */
  serverWritten(before: Server | undefined, after: Server): void {
    const { elapsedMs } = this.world
    const { uid, name, sessions, state } = after
    if (!this.world.probedBuilds.includes(after.build)) return
    if (sessions[0] && !this.#activeAt.has(uid)) this.#activeAt.set(uid, elapsedMs)
    if (sessions[0]?.told && !this.#toldStoredAt.has(uid)) {
      this.#toldStoredAt.set(uid, elapsedMs)
      if (!this.#told.has(uid)) this.world.violate(`${name} is stored as told, but its game never was`)
    }
    if (after.health !== 'Unhealthy' || before?.health === 'Unhealthy' || state === 'Terminating') return
    // It takes too long to start with its session.
    if (startsWithSession(this.world, after.build) && this.#told.has(uid) && !this.#answeredSinceTold.has(uid)) return
    if ((this.#failedAt.get(uid) ?? -Infinity) < elapsedMs - storedMs)
      this.world.violate(`${name} is Unhealthy, although too few of its probes have failed`)
  }

  /** Says why a server must not end for this reason, or undefined. */
  objectionTo(host: Host, { message, reason }: EventOf<'ServerEnding'>, record: Server): string | undefined {
    if (!this.world.probedBuilds.includes(record.build)) return undefined
    if (reason === 'Silent' || reason === 'NeverSpoke') return 'its game never speaks'
    if (reason === 'ReportedUnhealthy') {
      if (record.sessions.length > 0) return 'it has a session'
      const hasFailed = (this.#failedAt.get(record.uid) ?? -Infinity) >= this.world.elapsedMs - storedMs
      return hasFailed ? undefined : 'too few of its probes have failed'
    }
    if (reason === 'Exited' && message.includes(sessionOver)) {
      return message.includes(logSays) ? this.#objectionToLog(record) : this.#objectionToEmpty(host, record)
    }
    if (reason === 'Unclaimed' && this.#emptyFor(host, record.uid) === undefined)
      return 'its game has not said that nobody plays'
    return undefined
  }

  /** True if the fleet has ended the server because its game says that the session is over. */
  isEndOfSession({ message, reason }: EventOf<'ServerEnding'>): boolean {
    return reason === 'Exited' && message.includes(sessionOver)
  }

  #objectionToLog({ address, sessions }: Server): string | undefined {
    const game = address === undefined ? undefined : this.deps().backend.everAt(address)?.game
    return game?.isOver && game.session === sessions[0]?.id
      ? undefined
      : 'its game has not printed that its match is over'
  }

  #objectionToEmpty(host: Host, { build, namespace, uid }: Server): string | undefined {
    const emptyMs = this.#emptyFor(host, uid)
    if (emptyMs === undefined) return 'its game has not said that nobody plays'
    const game = this.#gameOf({ namespace, name: build })
    if (!game) return undefined
    // An answer counts only once both probes of a round are over.
    const toleranceMs = game.liveness ? 1_000 * (game.timeoutSeconds ?? gameDefaults.timeoutSeconds) : 0
    const { emptySeconds = Infinity } = game.end ?? {}
    if (emptyMs + toleranceMs < emptySeconds * 1_000)
      return `its game has said for ${emptyMs} ms only that nobody plays`
    const hadPlayers = (this.#playersAt.get(uid) ?? -Infinity) > (this.#activeAt.get(uid) ?? Infinity) - allocationMs
    return hadPlayers ? undefined : 'nobody has played yet'
  }

  /** For how long its game has said, up to the last question, that nobody plays. Undefined: it has not. */
  #emptyFor(host: Host, uid: string): number | undefined {
    const { empty, lost, saidAt } = this.#heardBy(host, host.terms, uid)
    const [first] = empty
    return lost === 0 && first !== undefined ? saidAt - first : undefined
  }

  /** Called when a host writes to the standard input of a game. */
  telling(host: Host, ref: Ref): Telling {
    const { backend, lease, store } = this.deps()
    const { terms: term } = host
    const uid = backend.instances.get(keyOf(ref))?.spec.uid
    const begun = this.world.elapsedMs
    const before = uid === undefined ? undefined : this.#toldBy.get(uid)
    const knows = before?.by === host && before.term === term
    const wasStored = uid !== undefined && (this.#toldStoredAt.get(uid) ?? Infinity) < lease.electedAt
    if (host === lease.leader && (knows || wasStored) && store.servers.get(keyOf(ref))?.record.uid === uid)
      this.world.violate(`${host.name} tells ${ref.name} again of its session`)
    return {
      arrived: ({ spec }) => void this.#told.add(spec.uid),
      answered: () => {
        const isInTime = this.world.elapsedMs - begun < answerMs
        host.run(() => isInTime && uid !== undefined && this.#toldBy.set(uid, { by: host, term }))
      },
    }
  }

  /** Call once nothing changes any more. */
  checkSettled(): void {
    const { backend, store } = this.deps()
    const all = [...store.servers.values()].filter(({ record }) => this.world.probedBuilds.includes(record.build))
    const gameOf = (record: Server) => backend.instances.get(keyOf(record))?.game
    // Where not one answers, the fleet takes itself for cut off.
    const someAnswer = all.some(({ record }) => gameOf(record)?.answersProbes)
    for (const { record } of all) {
      const { name, sessions, state } = record
      if (state === 'Active' && !sessions[0]?.told) this.world.violate(`${name} is not stored as told`)
      if (state === 'Active' && gameOf(record)?.isOver)
        this.world.violate(`${name} is Active, although its log says that its match is over`)
      if (startsWithSession(this.world, record.build)) continue
      if (state === 'StandingBy' && someAnswer && gameOf(record)?.isHanging)
        this.world.violate(`${name} is standing by, but answers no probe`)
    }
  }

  #gameOf({ namespace, name }: Ref): GameSpec | undefined {
    const spec: BuildSpec | undefined = this.deps().store.builds.get(keyOf({ namespace, name }))?.record.spec
    return spec?.game
  }

  #heardBy({ name }: Host, term: number, uid: string): Heard {
    const key = `${name} ${term} ${uid}`
    const known = this.#heard.get(key)
    if (known) return known
    const created: Heard = { empty: [], saidAt: -Infinity, lost: 0, failures: { check: 0, players: 0 } }
    this.#heard.set(key, created)
    return created
  }
}

/** In the message of an end that the fleet has found out. */
const sessionOver = 'the session is over: '
const logSays = 'its log says: '
/** A call that takes longer counts as lost. */
const answerMs = 60_000
