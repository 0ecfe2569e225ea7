/** Reads parameters from the path and the query. Throws `invalid` for a value that is not of the right type. */
import { FleetError } from '../../contracts/errors.js'
import type { Ref } from '../../rules/model/resources.js'
import { misspelledName } from '../../rules/validation/closest-name.js'
import { isObject, shown, shownName } from '../../rules/validation/problem.js'
import type { Exchange } from '../core/exchange.js'

/** The resource that a path names. */
export function refOf(exchange: Pick<Exchange, 'param'>): Ref {
  return { namespace: exchange.param('namespace'), name: exchange.param('name') }
}

/**
 * Throws `invalid` for a parameter that looks like a misspelled one of `known`. Any other is left to the host app, whose hooks
 * can read parameters of their own.
 */
export function refuseMisspelled({ search }: Pick<Exchange, 'search'>, known: readonly string[]): void {
  if (search === '') return
  for (const name of new URLSearchParams(search).keys()) {
    if (known.includes(name)) continue
    const meant = misspelledName(name, known)
    // A name with another first letter, such as `await`, is rather a parameter of the host app.
    if (meant === undefined || meant[0] !== name[0]?.toLowerCase()) continue
    throw new FleetError('invalid', `query parameter ${shownName(name)} is not allowed; did you mean ${meant}?`)
  }
}

/** Throws `invalid` for a body that has what belongs into the query: the value of an option of the same call in process. */
export function refuseOptionsIn(body: unknown, options: Readonly<Record<string, string>>): void {
  if (!isObject(body)) return
  for (const name in options) {
    // In an allocation, null counts as absent.
    if (body[name] === undefined || body[name] === null) continue
    const message = `${name} is not allowed in the body; did you mean the query parameter ${options[name]}?`
    throw new FleetError('invalid', message)
  }
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
