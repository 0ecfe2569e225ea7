/**
 * Allocates public ports on this machine that are held neither by this fleet nor by other programs. Binds sockets to check.
 */
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { FleetError } from '../../src/contracts/errors.js'
import { codeOf } from '../../src/platform/files.js'
import type { PortRange } from '../../src/rules/model/ports.js'
import { PortRotation, portsExhausted } from '../shared/public-ports.js'

/**
 * Stores no allocations: held ports are read from the instances on every call, so none can leak. A port is reserved before it
 * is probed, so that concurrent callers get different ports.
 */
export class PortPool {
  readonly #rotation: PortRotation
  readonly #held: () => Iterable<number>
  readonly #addresses: readonly string[]

  /** `held` returns the ports of all instances, including ports that are just being taken. */
  constructor(range: PortRange, publicAddress: string, held: () => Iterable<number>) {
    this.#rotation = new PortRotation(range)
    this.#held = held
    this.#addresses = probedAddresses(publicAddress)
  }

  /**
   * Adds `count` ports to `into`. The ports in `into` must already count as held, that is, `held` must return them. If `take`
   * rejects, for example with `ports-exhausted`, the caller must discard `into`.
   */
  async take(count: number, into: number[]): Promise<void> {
    let foreign = 0
    let held = new Set(this.#held())
    const candidates = this.#rotation.candidates(held)
    for (let missing = count; missing > 0;) {
      const next = candidates.next()
      if (next.done) throw this.#exhausted(count, into, foreign)
      const port = next.value
      if (held.has(port)) continue
      into.push(port)
      this.#rotation.advance(port)
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
    const { range } = this.#rotation
    let held = 0
    for (const port of new Set(this.#held()))
      if (port >= range.first && port <= range.last && !own.includes(port)) held++
    const detail = `${held} held by other servers of this fleet, ${foreign} by other programs`
    return portsExhausted(range, count, detail)
  }
}

/**
 * On Linux, a wildcard address conflicts with every other socket on the port. On other systems, it does not conflict with a
 * socket bound to a specific address, so the likely addresses are probed as well.
 */
function probedAddresses(publicAddress: string): readonly string[] {
  const wildcards = ['::', '0.0.0.0']
  return process.platform === 'linux' ? wildcards : [...new Set([...wildcards, '127.0.0.1', publicAddress])]
}

async function isFree(port: number, addresses: readonly string[]): Promise<boolean> {
  // Addresses are probed sequentially, because two probes of the same port would conflict with each other.
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
    const code = codeOf(error)
    if (code === 'EADDRINUSE' || code === 'EACCES' || code === 'EPERM') return false
    // This machine lacks the address or protocol, so no program can hold the port on it.
    if (code === 'EADDRNOTAVAIL' || code === 'EAFNOSUPPORT' || code === 'EINVAL' || code === 'ENOTFOUND') return true
    throw new FleetError('unavailable', 'cannot probe public ports', { cause: error })
  }
}

async function bindTcp(port: number, host: string): Promise<void> {
  const server = createServer()
  try {
    // Exclusive, because a node:cluster worker would otherwise share the primary's sockets.
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
