/** Who sent a request, for the audit. */
import type { Caller, CallerKind } from '../../contracts/audit.js'
import type { Exchange } from '../core/exchange.js'

/**
 * The identity that `authorize` returned, else the client certificate. The address is that of the connection's peer. Of a forwarded
 * request, what the host that received it has found out.
 */
export function callerOf(exchange: Exchange): Caller {
  if (exchange.forwardedCaller !== undefined) return exchange.forwardedCaller
  const { identity, remoteAddress: address } = exchange
  if (identity !== undefined) return caller(identity.kind ?? 'host', identity.caller, address)
  const certificate = exchange.clientCertificate()
  if (certificate !== undefined)
    return caller('certificate', certificate.commonName ?? certificate.fingerprint, address)
  return address === undefined ? { kind: 'anonymous' } : { kind: 'anonymous', address }
}

function caller(kind: CallerKind, name: string, address: string | undefined): Caller {
  return address === undefined ? { kind, name } : { kind, name, address }
}
