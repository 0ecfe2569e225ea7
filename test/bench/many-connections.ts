/** Generates load on connections that are opened beforehand. Each connection sends one request after the other. */
import { connect, type Socket } from 'node:net'
import { bodyOf, type Target } from './load.js'

export interface Load {
  /** Bodies of all responses with status 200. */
  readonly bodies: readonly string[]
  /** Latency of each response with status 200, from the first byte of the request to the last byte of the response. */
  readonly latenciesMs: readonly number[]
  /** Number of responses with another status, plus the number of closed connections. */
  readonly errors: number
  /** The first response with another status. */
  readonly firstError: string | undefined
  readonly connections: number
  readonly wallMs: number
}

export async function openConnections(target: Target, count: number): Promise<readonly Socket[]> {
  const open: Socket[] = []
  let pending = 0
  // Opens connections in batches, since the server's accept backlog is limited.
  const next = async (): Promise<void> => {
    while (open.length + pending < count) {
      pending++
      open.push(await connected(target))
      pending--
    }
  }
  await Promise.all(Array.from({ length: 50 }, next))
  return open
}

function connected(target: Target): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(target)
    socket.setNoDelay(true)
    socket.setEncoding('latin1')
    socket.once('error', reject)
    socket.once('connect', () => {
      socket.off('error', reject)
      // Errors are ignored here, since a closed connection is counted as an error when it is used.
      socket.on('error', () => {})
      resolve(socket)
    })
  })
}

export async function loadThrough(connections: readonly Socket[], requests: readonly string[]): Promise<Load> {
  const bodies: string[] = []
  const latenciesMs: number[] = []
  let errors = 0
  let firstError: string | undefined
  let next = 0

  const through = (socket: Socket) =>
    new Promise<void>((resolve) => {
      let received = ''
      let sentAt = 0
      const done = () => {
        socket.off('data', onData).off('close', onClose)
        resolve()
      }
      const send = () => {
        const request = requests[next++]
        if (request === undefined) return done()
        sentAt = performance.now()
        return socket.write(request)
      }
      const onData = (text: string) => {
        received += text
        const body = bodyOf(received)
        if (body === undefined) return
        if (received.startsWith('HTTP/1.1 200 ')) {
          bodies.push(body)
          latenciesMs.push(performance.now() - sentAt)
        } else {
          errors++
          firstError ??= received
        }
        received = ''
        send()
      }
      const onClose = () => {
        errors++
        done()
      }
      socket.on('data', onData).on('close', onClose)
      if (socket.destroyed) onClose()
      else send()
    })

  const since = performance.now()
  await Promise.all(connections.map(through))
  const wallMs = performance.now() - since
  return { bodies, latenciesMs, errors, firstError, connections: connections.length, wallMs }
}
