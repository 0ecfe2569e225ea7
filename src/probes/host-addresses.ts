/** Finds the IP address of a host. */
import { lookup } from 'node:dns/promises'
import { isIP, SocketAddress } from 'node:net'
import type { Clock } from '../contracts/clock.js'

export interface HostAddress {
  readonly address: string
  readonly family: 4 | 6
}

/** Names are looked up with few threads, which files need as well. Most fleets have few names, and none that change often. */
const keptMs = 10_000
const maxNames = 1_000

interface Lookup {
  readonly address: Promise<HostAddress>
  /** Absent while it is in progress. */
  foundAtMs?: number
}

export class HostAddresses {
  readonly #clock: Clock
  readonly #lookups = new Map<string, Lookup>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /**
   * The address as the system writes it, so that it equals that of a datagram's sender. Of a name, its first IPv4 address, or else its first
   * IPv6 address; remembered for 10 s. Rejects with the system's error.
   */
  async find(host: string): Promise<HostAddress> {
    const family = isIP(host)
    if (family === 4) return { address: host, family }
    if (family === 6) return ipv6(host)
    return this.#lookUp(host)
  }

  /** One lookup per name at a time, however long it takes: it cannot be ended. */
  async #lookUp(name: string): Promise<HostAddress> {
    const known = this.#lookups.get(name)
    if (known !== undefined && !this.#isOld(known)) return known.address
    if (this.#lookups.size >= maxNames) this.#lookups.clear()
    const lookup: Lookup = { address: firstAddress(name) }
    this.#lookups.set(name, lookup)
    try {
      const address = await lookup.address
      lookup.foundAtMs = this.#clock.elapsed()
      return address
    } catch (error) {
      // So that the next probe looks again.
      if (this.#lookups.get(name) === lookup) this.#lookups.delete(name)
      throw error
    }
  }

  #isOld({ foundAtMs }: Lookup): boolean {
    return foundAtMs !== undefined && this.#clock.elapsed() - foundAtMs >= keptMs
  }
}

async function firstAddress(name: string): Promise<HostAddress> {
  const { address, family } = await lookup(name, { verbatim: false })
  return family === 6 ? ipv6(address) : { address, family: 4 }
}

/** An IPv4 address in the form of IPv6 is reached over IPv4. The zone of a link-local address stays. */
function ipv6(text: string): HostAddress {
  const [plain = '', zone] = text.split('%')
  const { address } = new SocketAddress({ address: plain, family: 'ipv6' })
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/.exec(address)?.[1]
  if (mapped !== undefined) return { address: mapped, family: 4 }
  return { address: zone === undefined ? address : `${address}%${zone}`, family: 6 }
}
