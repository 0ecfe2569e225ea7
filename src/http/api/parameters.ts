/** Reads parameters from the path and the query. Throws `invalid` for a value that is not of the right type. */
import { FleetError } from '../../contracts/errors.js'
import type { Ref } from '../../rules/model/resources.js'
import { shown } from '../../rules/validation/problem.js'
import type { Exchange } from '../core/exchange.js'

/** The resource that a path names. */
export function refOf(exchange: Pick<Exchange, 'param'>): Ref {
  return { namespace: exchange.param('namespace'), name: exchange.param('name') }
}

/** A parameter such as `?confirm=true`. Without a value, it also means true. */
export function readFlag(exchange: Pick<Exchange, 'query'>, name: string): boolean {
  const text = exchange.query(name)
  switch (text) {
    case '':
    case '1':
    case 'true':
      return true
    case undefined:
    case '0':
    case 'false':
      return false
    default:
      throw new FleetError('invalid', `${name} must be true or false, but is ${shown(text)}`)
  }
}

/** A parameter such as `?tail=100`. */
export function readCount(exchange: Pick<Exchange, 'query'>, name: string): number | undefined {
  const text = exchange.query(name)
  if (text === undefined || /^\d{1,15}$/.test(text)) return text === undefined ? undefined : Number(text)
  throw new FleetError('invalid', `${name} must be an integer ≥ 0, but is ${shown(text)}`)
}
