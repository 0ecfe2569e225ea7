/**
 * Connections between hosts that share a secret: TLS whose two sides prove that they have the same key, without certificates. The
 * one suite has forward secrecy and authenticated encryption.
 */
import { hkdfSync } from 'node:crypto'
import type { SecureContextOptions, TlsOptions } from 'node:tls'

/** A key for one purpose. Others cannot be computed from it, nor the secret. */
export function deriveKey(secret: Uint8Array | string, purpose: string): Uint8Array {
  return new Uint8Array(hkdfSync('sha256', secret, 'gamekeeper', purpose, 32))
}

/** The name by which both sides mean this key. */
const identity = 'gamekeeper'
/**
 * Node offers shared keys up to TLS 1.2. The suites with `DHE-PSK` need Diffie-Hellman parameters of the server, and without them end in a failed
 * handshake.
 */
const suite: SecureContextOptions = {
  ciphers: 'ECDHE-PSK-CHACHA20-POLY1305',
  minVersion: 'TLSv1.2',
  maxVersion: 'TLSv1.2',
}

/** The key as it is at each connection. Without one, nobody is admitted and nothing is sent. */
type Key = () => Uint8Array | undefined

export function sharedKeyServer(key: Key) {
  const pskCallback: NonNullable<TlsOptions['pskCallback']> = (_socket, name) =>
    (name === identity ? key() : undefined) ?? null
  return { ...suite, pskCallback, requestCert: false, rejectUnauthorized: false }
}

/** The key itself proves who the other side is. */
export function sharedKeyClient(key: Key) {
  const pskCallback = () => {
    const psk = key()
    return psk === undefined ? null : { psk, identity }
  }
  return { ...suite, pskCallback, checkServerIdentity: () => undefined }
}
