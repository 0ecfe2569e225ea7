/**
 * The soak's own book of what it was promised: which session has which server, what the soak has ended itself, and how
 * many servers a build may have. It judges what the host lists. Pure but for the time in its history.
 */
import type { GameServer } from 'gamekeeper'
import type { ProcessIdentity } from '../../src/platform/process-identity.js'
import { liveOf, portOf } from '../e2e/client.js'

export interface Build {
  readonly name: string
  readonly buildID: string
  /** Never set higher than this. */
  readonly mostMax: number
  standingBy: number
  max: number
  /** What its live servers must not exceed: `max`, or while a lower one takes effect what was last seen. */
  ceiling: number
  /** A change is under way, so that nobody can say which numbers hold. */
  changing: boolean
  /** How many changes there were. */
  changes: number
  /** Set before it is deleted. */
  deleted: boolean
  /** Ends that count as crashes, or may: nobody learns of the exit codes of those that are killed with their supervisor. */
  crashesCaused: number
}

/** asked: no answer yet. refused: surely none. held: answered. ended: by the soak, or by what it has done. */
export type SessionState = 'asked' | 'refused' | 'held' | 'ended'

export interface Session {
  readonly sessionID: string
  readonly build: Build
  readonly askedAt: number
  state: SessionState
  port?: number
  server?: string
  game?: ProcessIdentity
  heldAt?: number
  /** Its game has told so. */
  known: boolean
  /** The soak has killed its supervisor, and with it the only one who learns its exit code. */
  orphaned: boolean
  /** Calls for it that are under way: meanwhile it must not be ended, or they would begin it anew elsewhere. */
  calls: number
}

/** A server that the soak ends while nobody has it, as far as it knows. */
interface Victim {
  readonly server: string
  goneAt?: number
}

/** Who was held, and which builds were at rest, when a list was asked for. */
export interface Before {
  readonly held: readonly Session[]
  /** With the changes that they had seen by then. */
  readonly resting: ReadonlyMap<Build, number>
}

export interface Breach {
  readonly at: string
  readonly what: string
  /** What came before, oldest first. */
  readonly history: readonly string[]
}

const historyLength = 25

export class Ledger {
  readonly builds = new Map<string, Build>()
  readonly sessions = new Map<string, Session>()
  readonly breaches: Breach[] = []
  readonly #victims = new Map<number, Victim>()
  readonly #history: string[] = []
  readonly #onBreach: () => void

  constructor(onBreach: () => void) {
    this.#onBreach = onBreach
  }

  note(what: string): void {
    this.#history.push(`${new Date().toISOString().slice(11, 23)} ${what}`)
    if (this.#history.length > historyLength) this.#history.shift()
  }

  breach(what: string): void {
    this.breaches.push({ at: new Date().toISOString(), what, history: [...this.#history] })
    this.note(`BREACH ${what}`)
    this.#onBreach()
  }

  held(): readonly Session[] {
    return [...this.sessions.values()].filter(({ state }) => state === 'held')
  }

  /** To be called before the deed. */
  end(session: Session): void {
    session.state = 'ended'
  }

  /** To be called before an idle server is ended: a call on its way may get it, and loses it then. */
  victim(port: number, server: string): void {
    this.#victims.set(port, { server })
  }

  /** True when the server that the answer of this session names may be one that the soak has ended. */
  mayBeVictim(session: Session): boolean {
    const victim = this.#victims.get(session.port ?? 0)
    return victim !== undefined && (victim.goneAt ?? Infinity) > session.askedAt
  }

  /** What to hand to `judge` with a list that is asked for right now. */
  before(): Before {
    const resting = [...this.builds.values()].filter(({ changing }) => !changing)
    return { held: this.held(), resting: new Map(resting.map((build) => [build, build.changes])) }
  }

  judge(servers: readonly GameServer[], { held, resting }: Before): void {
    const bySession = new Map<string, GameServer>()
    const byPort = new Map<number, string>()
    for (const server of servers) {
      const { name } = server.metadata
      const { state, sessionID, ports } = server.status
      const port = portOf(ports)
      if (state !== 'Terminating' && state !== 'Pending' && port > 0) {
        if (byPort.has(port)) this.breach(`${name} and ${byPort.get(port)} both have port ${port}`)
        byPort.set(port, name)
      }
      if (!sessionID) continue
      const other = bySession.get(sessionID)?.metadata.name
      if (other !== undefined) this.breach(`session ${sessionID} is on ${other} and on ${name}`)
      bySession.set(sessionID, server)
      this.#judgeSession(server, sessionID)
    }
    for (const session of held) this.#judgeHeld(session, bySession.get(session.sessionID))
    for (const [build, changes] of resting) {
      if (!build.changing && build.changes === changes) this.#judgeBuild(build, servers)
    }
    const names = new Set(servers.map(({ metadata }) => metadata.name))
    for (const victim of this.#victims.values()) if (!names.has(victim.server)) victim.goneAt ??= performance.now()
  }

  #judgeSession(server: GameServer, sessionID: string): void {
    const session = this.sessions.get(sessionID)
    const { name } = server.metadata
    if (!session) this.breach(`${name} has session ${sessionID}, which nobody has asked for`)
    else if (session.state === 'refused') this.breach(`${name} has session ${sessionID}, which was refused`)
    else if (session.server !== undefined && session.server !== name) {
      this.breach(`session ${sessionID} was on ${session.server} and is on ${name}`)
      this.end(session)
    }
  }

  #judgeHeld(session: Session, server: GameServer | undefined): void {
    // Meanwhile the soak may have ended it.
    if (session.state !== 'held') return
    const { sessionID, port } = session
    if (!server) this.breach(`session ${sessionID} on ${session.server} is lost`)
    else if (server.status.state !== 'Active') {
      this.breach(`session ${sessionID} is on ${server.metadata.name}, which is ${server.status.state}`)
    } else if (portOf(server.status.ports) !== port) {
      this.breach(`session ${sessionID} was told port ${port} and is on ${server.status.ports}`)
    } else return
    this.end(session)
  }

  #judgeBuild(build: Build, servers: readonly GameServer[]): void {
    const live = liveOf(serversOf(build, servers))
    if (live > build.ceiling) this.breach(`${build.name} has ${live} servers where ${build.ceiling} may be`)
    // While there are more than `max`, none may be added.
    build.ceiling = Math.max(build.max, Math.min(build.ceiling, live))
  }
}

export function serversOf(build: Build, servers: readonly GameServer[]): readonly GameServer[] {
  const name = new RegExp(`^${build.name}-[a-z0-9]{5}$`)
  return servers.filter(({ metadata }) => name.test(metadata.name))
}
