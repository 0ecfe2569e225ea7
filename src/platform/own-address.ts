/** Whether an IP address is one of this machine. */
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
