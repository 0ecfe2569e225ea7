/**
 * Protects an unauthenticated loopback listener from DNS rebinding. A web page can make its own host name resolve to
 * 127.0.0.1, so that the browser treats the page and the listener as one origin. Its requests still carry that name in
 * `Host`.
 */
import { isIP } from 'node:net'
import { FleetError } from '../../contracts/errors.js'
import { strings } from '../../contracts/option-checks.js'
import { shown } from '../../rules/validation/problem.js'
import type { Authorize } from './guard.js'

/**
 * An `authorize` hook that rejects requests for unknown host names. Allows `localhost`, `*.localhost`, IP addresses,
 * `names`, and requests without a `Host` header, which browsers never send.
 */
export function allowedHosts(names: readonly string[] = []): Authorize {
  if (!strings.is(names)) {
    throw new FleetError('invalid', `allowedHosts takes an array of host names, but got ${shown(names)}`)
  }
  const allowed = new Set(['localhost', ...names.map((name) => name.toLowerCase())])
  const isAllowed = (host: string) => allowed.has(host) || host.endsWith('.localhost') || isIP(host) !== 0
  /** Caches the last allowed header, since most callers always use the same name. */
  let lastAllowed: string | undefined
  return (request) => {
    const header = request.header('host')
    if (header === undefined || header === lastAllowed) return true
    const host = header.toLowerCase().replace(/:\d+$/, '')
    if (!isAllowed(host.replace(/^\[(.*)\]$/, '$1'))) {
      const hint = 'use localhost or an IP address, or add the name to allowedHosts'
      throw new FleetError('forbidden', `host name ${shown(host)} is not allowed; ${hint}`)
    }
    lastAllowed = header
    return true
  }
}
