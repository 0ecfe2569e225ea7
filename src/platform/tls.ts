/**
 * TLS: the certificate, private key and CA certificates of a listener, and connections between hosts that share a secret. May touch files
 * and real time.
 */
import { hkdfSync, X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import {
  createSecureContext,
  type SecureContextOptions,
  type Server as TlsServer,
  type TlsOptions as NodeTlsOptions,
} from 'node:tls'
import { systemClock } from '../contracts/clock.js'
import { FleetError, messageOf } from '../contracts/errors.js'
import type { Logger } from '../contracts/logger.js'
import { codeOf } from './files.js'

/** Paths of PEM files. */
export interface TlsOptions {
  /** The server's certificate, followed by its intermediate certificates. */
  readonly cert: string
  /** The certificate's private key. */
  readonly key: string
  /** CA certificates that client certificates must be signed by. */
  readonly ca?: string
  /**
   * Whether the handshake rejects clients without a valid certificate. Default: true if `ca` is set. If false, client
   * certificates are optional.
   */
  readonly requestCert?: boolean
  /** How often the files are checked. Default 10 s. */
  readonly checkMs?: number
}

export interface TlsFiles {
  readonly serverOptions: SecureContextOptions & {
    readonly requestCert: boolean
    readonly rejectUnauthorized: boolean
  }
  /** Applies changes in the files to the server until the returned function is called. */
  follow(server: TlsServer): () => void
}

const defaultCheckMs = 10_000

/** Throws `invalid`, naming the option and the file, if a file cannot be read or the key does not match the certificate. */
export async function openTlsFiles(options: TlsOptions, option: string, logger: Logger): Promise<TlsFiles> {
  const { ca, requestCert = ca !== undefined, checkMs = defaultCheckMs } = options
  if (requestCert && ca === undefined) {
    throw new FleetError('invalid', `${option}.requestCert needs ${option}.ca: the authorities of client certificates`)
  }
  if (!Number.isInteger(checkMs) || checkMs < 10) {
    throw new FleetError('invalid', `${option}.checkMs must be an integer ≥ 10, but is ${String(checkMs)}`)
  }
  let files: Files
  try {
    files = await read(options)
    createSecureContext(files)
  } catch (error) {
    throw new FleetError('invalid', `${option}: ${reasonOf(error)}`, { cause: error })
  }
  return {
    serverOptions: { ...files, requestCert: ca !== undefined, rejectUnauthorized: requestCert },
    follow(server) {
      const reloader = new TlsReloader({ server, files, options, checkMs, option, logger })
      return () => reloader.stop()
    },
  }
}

interface TlsReloaderDependencies {
  readonly server: TlsServer
  /** The files that the server currently uses. */
  readonly files: Files
  readonly options: TlsOptions
  readonly checkMs: number
  /** Name of the option, used in messages. */
  readonly option: string
  readonly logger: Logger
}

class TlsReloader {
  readonly #deps: TlsReloaderDependencies
  #current: Files
  #lastFailure = ''
  #cancel: () => void = () => {}
  #stopped = false

  constructor(deps: TlsReloaderDependencies) {
    this.#deps = deps
    this.#current = deps.files
    this.#schedule()
  }

  stop(): void {
    this.#stopped = true
    this.#cancel()
  }

  #schedule(): void {
    this.#cancel = systemClock.after(this.#deps.checkMs, () => {
      void this.#check().finally(() => {
        if (!this.#stopped) this.#schedule()
      })
    })
  }

  /** Never rejects. Logs a repeated failure only once. */
  async #check(): Promise<void> {
    const { server, options, option, logger } = this.#deps
    try {
      const next = await read(options)
      if (same(next, this.#current)) return
      // Throws if the files are unusable; the server then keeps the current ones.
      createSecureContext(next)
      if (this.#stopped) return
      server.setSecureContext(next)
      this.#current = next
      this.#lastFailure = ''
      logger.info({ option, ...validityOf(next.cert) }, 'reloaded changed TLS files')
    } catch (error) {
      const reason = reasonOf(error)
      if (reason !== this.#lastFailure) {
        logger.error({ err: error, option }, 'changed TLS files are unusable; keeping the current ones')
      }
      this.#lastFailure = reason
    }
  }
}

interface Files {
  readonly cert: Buffer
  readonly key: Buffer
  readonly ca?: Buffer
}

async function read({ cert, key, ca }: TlsOptions): Promise<Files> {
  const [certBytes, keyBytes, caBytes] = await Promise.all([
    readFile(cert),
    readFile(key),
    ca === undefined ? undefined : readFile(ca),
  ])
  // If the CA file were empty, Node would use its default CA certificates.
  if (caBytes !== undefined) checkAuthorities(caBytes, ca)
  return { cert: certBytes, key: keyBytes, ...(caBytes !== undefined && { ca: caBytes }) }
}

function checkAuthorities(bytes: Buffer, path: string | undefined): void {
  try {
    void new X509Certificate(bytes)
  } catch (error) {
    throw new Error(`${String(path)} contains no certificate: ${messageOf(error)}`, { cause: error })
  }
}

function same(a: Files, b: Files): boolean {
  return a.cert.equals(b.cert) && a.key.equals(b.key) && (a.ca === b.ca || (a.ca?.equals(b.ca ?? none) ?? false))
}

const none = Buffer.alloc(0)

function validityOf(cert: Buffer): { readonly validTo: string } {
  return { validTo: new X509Certificate(cert).validTo }
}

/** Replaces OpenSSL's message if the key does not match the certificate. */
function reasonOf(error: unknown): string {
  if (codeOf(error) === 'ERR_OSSL_X509_KEY_VALUES_MISMATCH') return 'the key does not match the certificate'
  return messageOf(error)
}

// Connections between hosts that share a secret: TLS whose two sides prove that they have the same key, without certificates. The
// one suite has forward secrecy and authenticated encryption.

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
  const pskCallback: NonNullable<NodeTlsOptions['pskCallback']> = (_socket, name) =>
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
