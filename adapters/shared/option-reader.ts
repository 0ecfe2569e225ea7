/** Reads the options of a backend: each has a default, or is refused with `invalid`, which names it and says what it must be. */
import { isIP } from 'node:net'
import { FleetError } from '../../src/contracts/errors.js'
import { isPort, type PortRange, readPortRange } from '../../src/rules/model/ports.js'
import { isObject, shown } from '../../src/rules/validation/problem.js'

const hostPart = /^(?!-)[a-z0-9_-]{1,63}(?<!-)$/i

export class OptionReader {
  /** `owner` begins each message: the function that takes the options. */
  constructor(readonly owner: string) {}

  /** Refuses names that are no option. */
  only(options: object, known: readonly string[]): void {
    for (const name of Object.keys(options)) {
      if (known.includes(name)) continue
      throw new FleetError('invalid', `${this.owner}: ${name} is not an option; known are ${known.join(', ')}`)
    }
  }

  text(name: string, value: unknown, fallback: string): string {
    if (value === undefined) return fallback
    if (typeof value !== 'string' || value.trim() === '' || value.includes('\0')) {
      this.refuse(name, 'must be a string with something in it', value)
    }
    return value
  }

  whole(name: string, value: unknown, fallback: number, least = 1): number {
    if (value === undefined) return fallback
    if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < least) {
      this.refuse(name, `must be an integer ≥ ${least}`, value)
    }
    return value
  }

  flag(name: string, value: unknown, fallback: boolean): boolean {
    if (value === undefined) return fallback
    if (typeof value !== 'boolean') this.refuse(name, 'must be true or false', value)
    return value
  }

  /** A host's name or an IP address. */
  host(name: string, value: unknown): string {
    const isHost =
      typeof value === 'string' && value.length <= 253 && value.split('.').every((part) => hostPart.test(part))
    // Four numbers that are no address are no name either.
    const isName = isHost && !/^[\d.]+$/.test(value)
    if (typeof value !== 'string' || (isIP(value) === 0 && !isName)) {
      this.refuse(name, 'must be a host name or an IP address, without http:// and without a port', value)
    }
    return value
  }

  /** `must` says what the array must hold, and is said of the array. */
  strings(name: string, value: unknown, must: string): readonly string[] {
    if (!Array.isArray(value)) this.refuse(name, must, value)
    return Object.freeze(
      value.map((entry: unknown) => {
        if (typeof entry !== 'string' || entry === '') this.refuse(name, must, value)
        return entry
      }),
    )
  }

  portRange(value: unknown): PortRange {
    if (typeof value === 'string') {
      const read = readPortRange(value, 'portRange')
      if (!read.ok) throw new FleetError('invalid', `${this.owner}: portRange ${read.problem.message}`)
      return Object.freeze(read.value)
    }
    const first: unknown = isObject(value) ? value['first'] : undefined
    const last: unknown = isObject(value) ? value['last'] : undefined
    if (!isPort(first) || !isPort(last) || first > last) {
      this.refuse('portRange', 'must be { first, last } with ports from 1 to 65535, lower first', value)
    }
    return Object.freeze({ first, last })
  }

  refuse(name: string, must: string, value: unknown): never {
    throw new FleetError('invalid', `${this.owner}: ${name} ${must}, but is ${shown(value)}`)
  }
}
