/**
 * Callers who allocate through the address of a Service, over connections that they keep open, and who repeat a call whose connection
 * broke.
 */
import { randomUUID } from 'node:crypto'
import { Agent, request } from 'node:http'
import { setInterval as every } from 'node:timers/promises'
import { messageOf } from '../../../../src/contracts/errors.js'

const callers = 10
const intervalMs = 100
/** Longer than any change of leader, so that hosts hold calls meanwhile. */
const waitSeconds = 50

export class ServiceStream {
  /** Answers other than 200, and connections that broke although no host had been killed. */
  readonly refused: string[] = []
  /** The answers that each session has got. */
  readonly answers = new Map<string, Set<string>>()
  answered = 0
  /** Set while a host that was killed may still be an endpoint of the Service. */
  mayBreak = false
  readonly #url: string
  readonly #buildID: string
  readonly #sessions: string[] = []
  readonly #agent = new Agent({ keepAlive: true })
  readonly #stopping = new AbortController()
  readonly #running: Promise<void>

  /** Begins with this many sessions. */
  constructor(service: string, buildID: string, sessions: number) {
    this.#url = `http://${service}:5000/api/v1/allocate?wait=${waitSeconds}`
    this.#buildID = buildID
    for (let count = 0; count < sessions; count++) this.#sessions.push(randomUUID())
    this.#running = Promise.all(Array.from({ length: callers }, () => this.#caller())).then(() => {})
  }

  /** Allocates a server to a new session, whose callers repeat the call from then on. Resolves with the session and its address. */
  async newSession(): Promise<{ readonly sessionID: string; readonly host: string; readonly port: number }> {
    const sessionID = randomUUID()
    await this.#allocate(sessionID)
    this.#sessions.push(sessionID)
    const { IPV4Address, Ports } = JSON.parse([...(this.answers.get(sessionID) ?? [])][0] ?? '{}')
    return { sessionID, host: IPV4Address, port: Number(String(Ports).split(':')[1]) }
  }

  /** Resolves when all calls have been answered. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#running
    this.#agent.destroy()
  }

  async #caller(): Promise<void> {
    for (let turn = 0; !this.#stopping.signal.aborted; turn++) {
      const next = every(intervalMs)[Symbol.asyncIterator]().next()
      await this.#allocate(this.#sessions[turn % this.#sessions.length] ?? '')
      await next
    }
  }

  async #allocate(sessionID: string): Promise<void> {
    for (;;) {
      try {
        const { status, text } = await this.#post({ buildID: this.#buildID, sessionID })
        this.answered++
        if (status !== 200) this.refused.push(`${status} ${text}`)
        else this.answers.set(sessionID, (this.answers.get(sessionID) ?? new Set()).add(text))
        return
      } catch (error) {
        if (!this.mayBreak) this.refused.push(messageOf(error))
      }
    }
  }

  #post(body: object): Promise<{ readonly status: number; readonly text: string }> {
    return new Promise((resolve, reject) => {
      const sent = request(this.#url, { method: 'POST', agent: this.#agent }, (response) => {
        let text = ''
        response.on('data', (chunk: Buffer) => (text += chunk.toString()))
        response.on('error', reject)
        response.on('end', () => resolve({ status: response.statusCode ?? 0, text }))
      })
      sent.on('error', reject)
      sent.end(JSON.stringify(body))
    })
  }
}
