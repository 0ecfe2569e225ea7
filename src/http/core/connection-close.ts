/**
 * Reports the end of a connection to each request on it. Node notifies a response only once the responses before it on the same
 * connection have been sent, so a pipelined request that waits would not notice that its caller has gone.
 */
import type { Socket } from 'node:net'

/** The functions to call, by connection. One listener per socket, since thousands of requests can be pipelined on it. */
const requests = new WeakMap<Socket, Set<() => void>>()

/** Calls `closed` once when the connection closes, or at once if it has. Returns a function that cancels this. */
export function onConnectionClose(socket: Socket, closed: () => void): () => void {
  if (socket.destroyed) {
    closed()
    return () => {}
  }
  const waiting = requests.get(socket) ?? follow(socket)
  waiting.add(closed)
  return () => void waiting.delete(closed)
}

function follow(socket: Socket): Set<() => void> {
  const waiting = new Set<() => void>()
  requests.set(socket, waiting)
  socket.once('close', () => {
    for (const closed of waiting) closed()
  })
  return waiting
}
