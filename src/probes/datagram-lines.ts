/**
 * Shares few UDP sockets between all queries. A datagram belongs to a query if it comes from exactly the address and port that were asked;
 * any other costs two lookups.
 */
import { createSocket, type Socket } from 'node:dgram'
import type { HostAddress } from './host-addresses.js'
import { ProbeFailure } from './attempts.js'

/** To one port of one address, for as long as a query takes. */
export interface DatagramLine {
  /** Does nothing once the line is closed. */
  send(datagram: Uint8Array): void
  close(): void
}

export interface LineEvents {
  readonly onDatagram: (datagram: Uint8Array) => void
  readonly onError: (error: unknown) => void
}

/** So that bursts of answers are not lost; the system may allow less. */
const receiveBufferBytes = 512 * 1_024
/** How many queries may ask the same port of the same address at once. */
const maxSockets = 16

export class DatagramLines {
  readonly #sockets: Readonly<Record<4 | 6, SharedSocket[]>> = { 4: [], 6: [] }

  /** Opens sockets as needed: one per family, and more while one port is asked several times at once. */
  open({ address, family }: HostAddress, port: number, events: LineEvents): DatagramLine {
    const sockets = this.#sockets[family]
    let shared = sockets.find((candidate) => !candidate.has(address, port))
    if (shared === undefined) {
      if (sockets.length === maxSockets) throw new ProbeFailure(`the same port is asked ${maxSockets} times at once`)
      const created: SharedSocket = new SharedSocket(family, () => sockets.splice(sockets.indexOf(created), 1))
      sockets.push((shared = created))
    }
    const { line, isIdle } = shared.open(address, port, events)
    return {
      send: (datagram) => line.send(datagram),
      close: () => {
        line.close()
        // The first socket stays, for the next query.
        if (isIdle() && sockets[0] !== shared) shared.close()
      },
    }
  }

  close(): void {
    for (const sockets of Object.values(this.#sockets)) {
      for (const socket of [...sockets]) socket.close()
    }
  }
}

class SharedSocket {
  readonly #socket: Socket
  readonly #onClose: () => void
  /** By port, then by address: a datagram's sender is looked up without making a key. */
  readonly #lines = new Map<number, Map<string, LineEvents>>()
  #isClosed = false

  constructor(family: 4 | 6, onClose: () => void) {
    this.#onClose = onClose
    this.#socket = createSocket({
      type: family === 4 ? 'udp4' : 'udp6',
      ipv6Only: family === 6,
      recvBufferSize: receiveBufferBytes,
    })
    this.#socket.unref()
    this.#socket.on('message', (datagram, sender) =>
      this.#lines.get(sender.port)?.get(sender.address)?.onDatagram(datagram),
    )
    this.#socket.on('error', (error) => this.#fail(error))
  }

  has(address: string, port: number): boolean {
    return this.#lines.get(port)?.has(address) === true
  }

  open(
    address: string,
    port: number,
    events: LineEvents,
  ): { readonly line: DatagramLine; readonly isIdle: () => boolean } {
    const atPort = this.#lines.get(port) ?? new Map<string, LineEvents>()
    this.#lines.set(port, atPort)
    atPort.set(address, events)
    const isOpen = () => !this.#isClosed && atPort.get(address) === events
    const line: DatagramLine = {
      send: (datagram) => {
        if (!isOpen()) return
        this.#socket.send(datagram, port, address, (error) => {
          if (error && isOpen()) events.onError(error)
        })
      },
      close: () => {
        if (!isOpen()) return
        atPort.delete(address)
        if (atPort.size === 0) this.#lines.delete(port)
      },
    }
    return { line, isIdle: () => this.#lines.size === 0 }
  }

  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#onClose()
    this.#lines.clear()
    this.#socket.close()
  }

  /** The socket is of no use any longer. The next query opens another. */
  #fail(error: unknown): void {
    const events = [...this.#lines.values()].flatMap((atPort) => [...atPort.values()])
    this.close()
    for (const { onError } of events) onError(error)
  }
}
