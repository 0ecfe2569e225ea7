/** Holds the servers of an atomic batch until each of its sessions has one. Only then is anything written. */

/** A server that is held for a session of the batch. */
export interface HeldServer {
  /** True if the session may still have it. */
  isFree(): boolean
  /** Reserves it. Its write begins in the same tick. */
  reserve(): void
  /** Gives it up. */
  release(): void
}

interface Member {
  readonly server: HeldServer
  readonly resolve: (reserved: boolean) => void
  readonly reject: (error: unknown) => void
}

export class BatchGate {
  readonly #waiting = new Map<string, Member>()
  readonly #settled = new Set<string>()
  readonly #size: number
  /** Keys of the sessions. */
  readonly sessions: readonly string[]
  #isOpen = false
  #failure: { readonly error: unknown } | undefined

  constructor(sessions: readonly string[]) {
    this.#size = sessions.length
    this.sessions = sessions
  }

  /** True once each session has had a server at the same time, so that the writes have begun. */
  get isOpen(): boolean {
    return this.#isOpen
  }

  /**
   * Waits until every other session has a server, and then resolves with true: the server is reserved. Resolves with false if the session
   * needs another server, because this one has ended meanwhile. Rejects if the batch has failed. The server is given up in both cases.
   */
  async hold(session: string, server: HeldServer): Promise<boolean> {
    if (this.#failure) {
      server.release()
      throw this.#failure.error
    }
    if (this.#isOpen) return take(server)
    return new Promise<boolean>((resolve, reject) => {
      this.#waiting.set(session, { server, resolve, reject })
      this.#openIfComplete()
    })
  }

  /** Call when a session has its server. It may not have held one, because it had one before. */
  settle(session: string): void {
    this.#settled.add(session)
    this.#openIfComplete()
  }

  /** Gives up every server that is held. Does nothing once the gate is open. */
  fail(error: unknown): void {
    if (this.#isOpen || this.#failure) return
    this.#failure = { error }
    for (const { server, reject } of this.#waiting.values()) {
      server.release()
      reject(error)
    }
    this.#waiting.clear()
  }

  #openIfComplete(): void {
    if (this.#isOpen || this.#failure || this.#waiting.size + this.#settled.size < this.#size) return
    const lost = [...this.#waiting].filter(([, { server }]) => !server.isFree())
    if (lost.length === 0) {
      this.#isOpen = true
      for (const { server, resolve } of this.#waiting.values()) resolve(take(server))
      return
    }
    for (const [session, { server, resolve }] of lost) {
      this.#waiting.delete(session)
      server.release()
      resolve(false)
    }
  }
}

function take(server: HeldServer): boolean {
  const isFree = server.isFree()
  if (isFree) server.reserve()
  else server.release()
  return isFree
}
