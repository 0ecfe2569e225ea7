/** The matches that must survive: allocates them, and compares what the host and the machine say of them with what is expected. */
import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Allocation, GameServer } from 'gamekeeper'
import type { ProcessIdentity } from '../../../src/platform/process-identity.js'
import { runningIn } from '../machine.js'
import { liveBuild, type Response, send, type Target, tokens } from './target.js'

interface Match {
  readonly sessionID: string
  readonly ports: string
  readonly server: string
  readonly game: ProcessIdentity
}

export class LiveMatches {
  readonly #target: Target
  readonly #matches: Match[] = []
  #checks = 0

  constructor(target: Target) {
    this.#target = target
  }

  get count(): number {
    return this.#matches.length
  }

  get checks(): number {
    return this.#checks
  }

  /** Allocates a session and remembers its server and process. */
  async add(): Promise<void> {
    const sessionID = randomUUID()
    const { Ports } = await this.#allocate(sessionID)
    const server = (await this.#servers()).find(({ status }) => status.sessionID === sessionID)?.metadata.name ?? ''
    const [game] = runningIn(this.#target.dataDir).games.get(server) ?? []
    if (game === undefined) throw new Error(`the match of session ${sessionID} has no process`)
    this.#matches.push({ sessionID, ports: Ports, server, game })
  }

  /** The id that the game of the first match sends its heartbeats with. */
  sessionHostID(): string {
    const file = join(this.#target.dataDir, 'instances', `default.${this.#matches[0]?.server}`, 'gsdkConfig.json')
    const { sessionHostId }: { sessionHostId: string } = JSON.parse(readFileSync(file, 'utf8'))
    return sessionHostId
  }

  /** Every match is on its server and process, and no session is on two servers. */
  async check(): Promise<void> {
    const servers = await this.#servers()
    const { games } = runningIn(this.#target.dataDir)
    this.#checks++
    const bySession = new Map<string, GameServer[]>()
    for (const server of servers) {
      const { sessionID = '' } = server.status
      if (sessionID !== '') bySession.set(sessionID, [...(bySession.get(sessionID) ?? []), server])
    }
    for (const [sessionID, on] of bySession) {
      if (on.length > 1)
        this.#target.violate(`session ${sessionID} is on ${on.map(({ metadata }) => metadata.name).join(', ')}`)
    }
    for (const match of this.#matches) {
      const [server] = bySession.get(match.sessionID) ?? []
      const found = server && `${server.status.state} ${server.metadata.name} ${server.status.ports}`
      const expected = `Active ${match.server} ${match.ports}`
      if (found !== expected) this.#target.violate(`session ${match.sessionID} is on ${found}, expected ${expected}`)
      const running = games.get(match.server) ?? []
      if (
        running.length !== 1 ||
        !running.every(({ pid, startedAt }) => pid === match.game.pid && startedAt === match.game.startedAt)
      ) {
        this.#target.violate(
          `server ${match.server} with a match has ${running.length} processes, expected the one it had`,
        )
      }
    }
  }

  /** A repeated call for each session returns the same server. */
  async checkRepeated(): Promise<void> {
    for (const { sessionID, ports } of this.#matches) {
      const repeated = await this.#allocate(sessionID)
      if (repeated.Ports !== ports)
        this.#target.violate(`session ${sessionID} was on ${ports} and is on ${repeated.Ports}`)
    }
  }

  async #allocate(sessionID: string): Promise<Allocation> {
    const body = JSON.stringify({ buildID: liveBuild.buildID, sessionID })
    const url = `${this.#target.apis.allocation}/api/v1/allocate?wait=60`
    return parsed(await send(this.#target, 'POST', url, { token: tokens.keeper, body }))
  }

  async #servers(): Promise<readonly GameServer[]> {
    return parsed(
      await send(this.#target, 'GET', `${this.#target.apis.management}/api/v1/gameservers`, { token: tokens.keeper }),
    )
  }
}

function parsed({ status, text }: Response): ReturnType<typeof JSON.parse> {
  if (status !== 200) throw new Error(`the keeper got ${status}: ${text.slice(0, 200)}`)
  return JSON.parse(text)
}
