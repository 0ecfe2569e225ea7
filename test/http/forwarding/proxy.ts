/** A TCP proxy between two hosts, which tests break. */
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'

export interface Proxy {
  /** `127.0.0.1:port` */
  readonly address: string
  /** Number of connections so far. */
  readonly connections: number
  /** The port from which the last one came. */
  readonly lastPort: number | undefined
  /** Where connections lead. Before that, they wait. */
  target(port: number): void
  /** Answers are swallowed from now on, or no longer. */
  mute(isMute: boolean): void
  /** Answers are kept back until the returned function is called. */
  hold(): () => void
  /** Cuts all connections, of which new ones can be made. */
  cut(): void
  close(): Promise<void>
}

export async function openProxy(): Promise<Proxy> {
  const sockets = new Set<Socket>()
  let isMute = false
  let held: (() => void)[] | undefined
  let connections = 0
  let lastPort: number | undefined
  let known: (port: number) => void = () => {}
  const port = new Promise<number>((resolve) => (known = resolve))
  const keep = (socket: Socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.on('close', () => sockets.delete(socket))
    return socket
  }
  const server = createServer((incoming) => {
    connections++
    lastPort = incoming.remotePort
    keep(incoming)
    void port.then((to) => {
      const outgoing = keep(connect(to, '127.0.0.1'))
      incoming.pipe(outgoing)
      outgoing.on('data', (data: Buffer) => {
        if (held) held.push(() => void incoming.write(data))
        else if (!isMute) incoming.write(data)
      })
      outgoing.on('close', () => incoming.destroy())
      incoming.on('close', () => outgoing.destroy())
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port: own } = server.address() as AddressInfo
  const cut = () => {
    for (const socket of sockets) socket.destroy()
  }
  return {
    address: `127.0.0.1:${own}`,
    get connections() {
      return connections
    },
    get lastPort() {
      return lastPort
    },
    target: (to) => known(to),
    mute: (mute) => (isMute = mute),
    hold() {
      const kept: (() => void)[] = []
      held = kept
      return () => {
        held = undefined
        for (const write of kept) write()
      }
    },
    cut,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        cut()
      }),
  }
}
