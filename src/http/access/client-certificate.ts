/** The certificate that a client has shown on a TLS connection, once TLS itself has found it good. */
import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import type { ClientCertificate } from '../core/exchange.js'

export function clientCertificateOf(socket: Socket): ClientCertificate | undefined {
  // One that nobody has vouched for says nothing.
  if (!(socket instanceof TLSSocket) || !socket.authorized) return undefined
  const { subject, fingerprint256 } = socket.getPeerCertificate()
  // Without a certificate the object is empty, whatever its type says.
  const fingerprint: string | undefined = fingerprint256
  if (fingerprint === undefined) return undefined
  const { CN } = subject
  return { commonName: Array.isArray(CN) ? CN[0] : CN, fingerprint }
}
