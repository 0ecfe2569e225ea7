/** Whether an address is one of this machine, or one that nobody else can reach. */
import { createSocket } from 'node:dgram'
import { isIPv6 } from 'node:net'

/** Tries to bind it: the list of interfaces leaves out a bridge that no container is on yet. */
export function isOwnAddress(address: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createSocket(isIPv6(address) ? 'udp6' : 'udp4')
    const done = (own: boolean) => socket.close(() => resolve(own))
    socket.once('error', () => done(false))
    socket.bind({ address, port: 0, exclusive: true }, () => done(true))
  })
}

/** Whom only this machine can reach. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127\.\d+\.\d+\.\d+$/.test(host)
}
