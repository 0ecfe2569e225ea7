/** Public ports of one machine: hands out numbers that neither this fleet nor another program holds. Binds sockets. */
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { FleetError } from '../../src/contracts/errors.js'
import { candidatePorts, type PortRange } from '../../src/rules/model/ports.js'

/**
 * Keeps no books: what is held is read from the instances each time, so that no number can leak. A number is taken in
 * the same tick in which it was found free, so that concurrent callers get different ones.
 */
export class PortPool {
  readonly #range: PortRange
  readonly #held: () => Iterable<number>
  readonly #addresses: readonly string[]
  #last: number

  /** `held` gives the numbers of all instances, those that are just being taken included. */
  constructor(range: PortRange, publicAddress: string, held: () => Iterable<number>) {
    this.#range = range
    this.#held = held
    this.#addresses = probedAddresses(publicAddress)
    this.#last = range.first - 1
  }

  /**
   * Adds `count` numbers to `into`, which must be among what `held` gives. Rejects with `ports-exhausted`; then it is
   * for the caller to drop `into`.
   */
  async take(count: number, into: number[]): Promise<void> {
    let foreign = 0
    let held = new Set(this.#held())
    const candidates = candidatePorts(this.#range, held, this.#last)
    for (let missing = count; missing > 0;) {
      const next = candidates.next()
      if (next.done) throw this.#exhausted(count, into, foreign)
      const port = next.value
      if (held.has(port)) continue
      into.push(port)
      this.#last = port
      const free = await isFree(port, this.#addresses)
      if (free) missing--
      else {
        foreign++
        into.splice(into.indexOf(port), 1)
      }
      held = new Set(this.#held())
    }
  }

  #exhausted(count: number, own: readonly number[], foreign: number): FleetError {
    const { first, last } = this.#range
    let held = 0
    for (const port of new Set(this.#held())) if (port >= first && port <= last && !own.includes(port)) held++
    return new FleetError(
      'ports-exhausted',
      `not enough free public ports in ${first}-${last} for a server that exposes ${count}: ` +
        `${held} held by other servers of this fleet, ${foreign} by other programs`,
    )
  }
}

/**
 * The wildcards see every other socket on Linux. Elsewhere a socket bound to one address does not stop a second one on
 * the wildcard, so the likely addresses are tried by themselves.
 */
function probedAddresses(publicAddress: string): readonly string[] {
  const wildcards = ['::', '0.0.0.0']
  return process.platform === 'linux' ? wildcards : [...new Set([...wildcards, '127.0.0.1', publicAddress])]
}

async function isFree(port: number, addresses: readonly string[]): Promise<boolean> {
  // One after the other: two sockets of ours on one number would stand in each other's way.
  for (const address of addresses) {
    if (!(await canBind(() => bindTcp(port, address)))) return false
    if (!(await canBind(() => bindUdp(port, address)))) return false
  }
  return true
}

async function canBind(bind: () => Promise<void>): Promise<boolean> {
  try {
    await bind()
    return true
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined
    if (code === 'EADDRINUSE' || code === 'EACCES' || code === 'EPERM') return false
    // This machine has no such address or no such protocol: nobody can hold the number there.
    if (code === 'EADDRNOTAVAIL' || code === 'EAFNOSUPPORT' || code === 'EINVAL' || code === 'ENOTFOUND') return true
    throw new FleetError('unavailable', 'cannot find out which public ports are free', { cause: error })
  }
}

async function bindTcp(port: number, host: string): Promise<void> {
  const server = createServer()
  try {
    // Exclusive: a worker of node:cluster would else share the primary's sockets.
    server.listen({ port, host, exclusive: true })
    await once(server, 'listening')
  } finally {
    await new Promise<void>((resolve) => server.close(() => resolve()))
  }
}

async function bindUdp(port: number, address: string): Promise<void> {
  const socket = createSocket(address.includes(':') ? 'udp6' : 'udp4')
  try {
    socket.bind({ port, address, exclusive: true })
    await once(socket, 'listening')
  } finally {
    await new Promise<void>((resolve) => socket.close(() => resolve()))
  }
}
