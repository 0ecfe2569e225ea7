/** Checks whether an address belongs to this machine, and whether it is loopback. */
import { createSocket } from 'node:dgram'
import { isIPv6 } from 'node:net'

/** Tries to bind to the address: the list of network interfaces omits a bridge without containers. */
export function isOwnAddress(address: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createSocket(isIPv6(address) ? 'udp6' : 'udp4')
    const done = (own: boolean) => socket.close(() => resolve(own))
    socket.once('error', () => done(false))
    socket.bind({ address, port: 0, exclusive: true }, () => done(true))
  })
}

/** True if only this machine can reach the host. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127\.\d+\.\d+\.\d+$/.test(host)
}
