/**
 * For a listener that only this machine reaches, and that asks nobody who is calling: a page of any web site can point its
 * own name at 127.0.0.1 and is then of one origin with it, but its calls still have that name as `Host`.
 */
import { isIP } from 'node:net'
import { FleetError } from '../../contracts/errors.js'
import { shown } from '../../rules/validation/problem.js'
import type { Authorize } from './guard.js'

/**
 * An `authorize` that refuses calls under names that somebody else may have pointed here. Lets in `localhost`, addresses,
 * `names`, and who names no host, which no browser does.
 */
export function allowedHosts(names: readonly string[] = []): Authorize {
  const known = new Set(['localhost', ...names.map((name) => name.toLowerCase())])
  const isKnown = (host: string) => known.has(host) || host.endsWith('.localhost') || isIP(host) !== 0
  /** Who calls often calls under one name. */
  let lastGood: string | undefined
  return (request) => {
    const header = request.header('host')
    if (header === undefined || header === lastGood) return true
    const host = header.toLowerCase().replace(/:\d+$/, '')
    if (!isKnown(host.replace(/^\[(.*)\]$/, '$1'))) {
      const how = 'ask for it under localhost or an address, or name it in allowedHosts'
      throw new FleetError('forbidden', `this host does not go by the name ${shown(host)}: ${how}`)
    }
    lastGood = header
    return true
  }
}
