/** Stands between a client and an engine's socket, and can make the engine seem to hang or to be gone. */
import { createServer, connect, type Socket } from 'node:net'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Docker from 'dockerode'

export type ProxyMode =
  | 'pass'
  /** Takes what comes and answers nothing, on connections that are open already too. */
  | 'stall'
  /** Breaks every connection. */
  | 'refuse'

export interface Proxy {
  readonly docker: Docker
  mode: ProxyMode
  /** Requests that have come in since the last look. */
  requests(): readonly string[]
  /** Breaks what is open, and lets new connections be. */
  breakAll(): void
  close(): Promise<void>
}

export async function proxyTo(socketPath: string): Promise<Proxy> {
  const directory = await mkdtemp(join(tmpdir(), 'gamekeeper-proxy-'))
  const path = join(directory, 'proxy.sock')
  const open = new Set<Socket>()
  let mode: ProxyMode = 'pass'
  let seen: string[] = []
  const breakAll = () => {
    for (const socket of open) socket.destroy()
  }
  const server = createServer((client) => {
    if (mode === 'refuse') return client.destroy()
    const engine = connect(socketPath)
    for (const [from, to] of [
      [client, engine],
      [engine, client],
    ] as const) {
      open.add(from)
      from.on('error', () => {})
      from.on('close', () => {
        open.delete(from)
        to.destroy()
      })
      from.on('data', (chunk: Buffer) => {
        const line = /^(?:GET|POST|PUT|DELETE|HEAD) \S+/.exec(chunk.toString('latin1'))?.[0]
        if (from === client && line) seen.push(line)
        // What is held back is lost: the client has given up by the time anybody could send it.
        if (mode === 'pass') to.write(chunk)
      })
    }
    return undefined
  })
  server.listen(path)
  await once(server, 'listening')
  return {
    docker: new Docker({ socketPath: path }),
    get mode() {
      return mode
    },
    set mode(next) {
      mode = next
      if (next === 'refuse') breakAll()
    },
    requests() {
      const since = seen
      seen = []
      return since
    },
    breakAll,
    async close() {
      breakAll()
      server.close()
      await rm(directory, { recursive: true, force: true })
    },
  }
}
