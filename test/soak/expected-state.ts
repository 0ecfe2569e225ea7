/**
 * The state that the soak test expects: which session has which server, what the test itself has ended, and how many servers
 * a build may have. Compares the expected state with the servers that the host lists.
 */
import type { GameServer } from 'gamekeeper'
import type { ProcessIdentity } from '../../src/platform/process-identity.js'
import { liveOf, portOf } from '../e2e/client.js'

export interface Build {
  readonly name: string
  readonly buildID: string
  /** The highest value that `max` may take. */
  readonly highestMax: number
  standingBy: number
  max: number
  /** Maximum number of live servers: `max`, or the last known number while a lowered `max` is taking effect. */
  ceiling: number
  /** Whether a change is in progress, during which the current limits are unknown. */
  changing: boolean
  /** Number of changes so far. */
  changes: number
  /** Set before the build is deleted. */
  deleted: boolean
  /** How many endings caused by the test may count as crashes. A game killed with its supervisor leaves no exit code. */
  crashesCaused: number
}

/** `pending`: no answer yet. `refused`: got no server. `allocated`: has a server. `ended`: the test ended it. */
export type SessionState = 'pending' | 'refused' | 'allocated' | 'ended'

export interface Session {
  readonly sessionID: string
  readonly build: Build
  readonly requestedAt: number
  state: SessionState
  port?: number
  server?: string
  game?: ProcessIdentity
  allocatedAt?: number
  /** Whether the game has reported the session. */
  isConfirmed: boolean
  /** Whether the test has killed the game's supervisor, so that the game's exit code will be lost. */
  isOrphaned: boolean
  /** Number of calls in progress. Meanwhile the session must not be ended, or a call would start it on another server. */
  calls: number
}

/** A server that the test ended while it was standing by. */
interface EndedServer {
  readonly server: string
  goneAt?: number
}

/** The expected state just before a list is requested. */
export interface Before {
  readonly allocated: readonly Session[]
  /** Builds without a change in progress, each with its number of changes so far. */
  readonly stable: ReadonlyMap<Build, number>
}

export interface Violation {
  readonly at: string
  readonly what: string
  /** The preceding actions, oldest first. */
  readonly history: readonly string[]
}

const historyLength = 25

export class ExpectedState {
  readonly builds = new Map<string, Build>()
  readonly sessions = new Map<string, Session>()
  readonly violations: Violation[] = []
  readonly #endedServers = new Map<number, EndedServer>()
  readonly #history: string[] = []
  readonly #onViolation: () => void

  constructor(onViolation: () => void) {
    this.#onViolation = onViolation
  }

  note(what: string): void {
    this.#history.push(`${new Date().toISOString().slice(11, 23)} ${what}`)
    if (this.#history.length > historyLength) this.#history.shift()
  }

  violate(what: string): void {
    this.violations.push({ at: new Date().toISOString(), what, history: [...this.#history] })
    this.note(`VIOLATION ${what}`)
    this.#onViolation()
  }

  allocated(): readonly Session[] {
    return [...this.sessions.values()].filter(({ state }) => state === 'allocated')
  }

  /** Call this before ending the session. */
  end(session: Session): void {
    session.state = 'ended'
  }

  /** Call this before ending an idle server, since a concurrent call may have allocated the server meanwhile. */
  serverEnded(port: number, server: string): void {
    this.#endedServers.set(port, { server })
  }

  /** True if the test may have ended this session's server. */
  mayHaveEnded(session: Session): boolean {
    const ended = this.#endedServers.get(session.port ?? 0)
    return ended !== undefined && (ended.goneAt ?? Infinity) > session.requestedAt
  }

  /** Call this before requesting a list, and pass the result to `check` together with the list. */
  before(): Before {
    const stable = [...this.builds.values()].filter(({ changing }) => !changing)
    return { allocated: this.allocated(), stable: new Map(stable.map((build) => [build, build.changes])) }
  }

  check(servers: readonly GameServer[], { allocated, stable }: Before): void {
    const bySession = new Map<string, GameServer>()
    const byPort = new Map<number, string>()
    for (const server of servers) {
      const { name } = server.metadata
      const { state, sessionID, ports } = server.status
      const port = portOf(ports)
      if (state !== 'Terminating' && state !== 'Pending' && port > 0) {
        if (byPort.has(port)) this.violate(`${name} and ${byPort.get(port)} both have port ${port}`)
        byPort.set(port, name)
      }
      if (!sessionID) continue
      const other = bySession.get(sessionID)?.metadata.name
      if (other !== undefined) this.violate(`session ${sessionID} is on ${other} and on ${name}`)
      bySession.set(sessionID, server)
      this.#checkSession(server, sessionID)
    }
    for (const session of allocated) this.#checkAllocated(session, bySession.get(session.sessionID))
    for (const [build, changes] of stable) {
      if (!build.changing && build.changes === changes) this.#checkBuild(build, servers)
    }
    const names = new Set(servers.map(({ metadata }) => metadata.name))
    for (const ended of this.#endedServers.values()) if (!names.has(ended.server)) ended.goneAt ??= performance.now()
  }

  #checkSession(server: GameServer, sessionID: string): void {
    const session = this.sessions.get(sessionID)
    const { name } = server.metadata
    if (!session) this.violate(`${name} has session ${sessionID}, which was never requested`)
    else if (session.state === 'refused') this.violate(`${name} has session ${sessionID}, which was refused`)
    else if (session.server !== undefined && session.server !== name) {
      this.violate(`session ${sessionID} was on ${session.server} and is on ${name}`)
      this.end(session)
    }
  }

  #checkAllocated(session: Session, server: GameServer | undefined): void {
    // The test may have ended the session meanwhile.
    if (session.state !== 'allocated') return
    const { sessionID, port } = session
    if (!server) this.violate(`session ${sessionID} on ${session.server} is lost`)
    else if (server.status.state !== 'Active') {
      this.violate(`session ${sessionID} is on ${server.metadata.name}, which is ${server.status.state}`)
    } else if (portOf(server.status.ports) !== port) {
      this.violate(`session ${sessionID} got port ${port} but is on ${server.status.ports}`)
    } else return
    this.end(session)
  }

  #checkBuild(build: Build, servers: readonly GameServer[]): void {
    const live = liveOf(serversOf(build, servers))
    if (live > build.ceiling) this.violate(`${build.name} has ${live} servers, at most ${build.ceiling} are allowed`)
    // While there are more servers than `max`, their number must not grow.
    build.ceiling = Math.max(build.max, Math.min(build.ceiling, live))
  }
}

export function serversOf(build: Build, servers: readonly GameServer[]): readonly GameServer[] {
  const name = new RegExp(`^${build.name}-[a-z0-9]{5}$`)
  return servers.filter(({ metadata }) => name.test(metadata.name))
}
