/**
 * Certificate, key and authorities of a listener, read from files and read again when they change, so that a renewed
 * certificate needs no restart. What cannot be used is never taken over. May touch files and real time.
 */
import { readFile } from 'node:fs/promises'
import type { Server as TlsServer } from 'node:https'
import { createSecureContext, type SecureContextOptions } from 'node:tls'
import { X509Certificate } from 'node:crypto'
import { systemClock } from '../contracts/clock.js'
import { FleetError, messageOf } from '../contracts/errors.js'
import type { Logger } from '../contracts/logger.js'

/** Paths of PEM files. */
export interface TlsOptions {
  /** The server's certificate, with those between it and its authority. */
  readonly cert: string
  /** Its private key. */
  readonly key: string
  /** Authorities of clients: whose certificate none of these has signed is refused at the handshake. */
  readonly ca?: string
  /** A client must show a certificate. Default: when `ca` is given; with `false` it may, and is let in without one, too. */
  readonly requestCert?: boolean
  /** How often the files are looked at. Default 10 s. */
  readonly checkMs?: number
}

export interface TlsFiles {
  readonly serverOptions: SecureContextOptions & {
    readonly requestCert: boolean
    readonly rejectUnauthorized: boolean
  }
  /** Hands every change to the server until the returned function is called. */
  follow(server: TlsServer): () => void
}

const usualCheckMs = 10_000

/** Throws `invalid`, naming option and file, for a file that cannot be read and for a pair that does not fit. */
export async function openTlsFiles(options: TlsOptions, option: string, logger: Logger): Promise<TlsFiles> {
  const { ca, requestCert = ca !== undefined, checkMs = usualCheckMs } = options
  if (requestCert && ca === undefined) {
    throw new FleetError('invalid', `${option}.requestCert needs ${option}.ca: the authorities that sign clients`)
  }
  if (!Number.isInteger(checkMs) || checkMs < 10) {
    throw new FleetError('invalid', `${option}.checkMs must be an integer ≥ 10, but is ${String(checkMs)}`)
  }
  let current: Files
  try {
    current = await read(options)
    createSecureContext(current)
  } catch (error) {
    throw new FleetError('invalid', `${option}: ${reasonOf(error)}`, { cause: error })
  }

  return {
    serverOptions: { ...current, requestCert: ca !== undefined, rejectUnauthorized: requestCert },
    follow(server) {
      let stopped = false
      let cancel = () => {}
      let complained = ''

      const look = async () => {
        try {
          const next = await read(options)
          if (same(next, current)) return
          // Throws before the server has forgotten the pair that works.
          createSecureContext(next)
          if (stopped) return
          server.setSecureContext(next)
          current = next
          complained = ''
          logger.info({ option, ...validityOf(next.cert) }, `${option}: the files have changed and are in use now`)
        } catch (error) {
          const reason = reasonOf(error)
          if (reason !== complained) {
            logger.error({ option, error: reason }, `${option}: the files cannot be used; those of before stay in use`)
          }
          complained = reason
        }
      }
      const plan = () => {
        cancel = systemClock.after(checkMs, () => {
          void look().finally(() => {
            if (!stopped) plan()
          })
        })
      }
      plan()
      return () => {
        stopped = true
        cancel()
      }
    },
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
  // Without this an empty file of authorities would mean those of every browser.
  if (caBytes !== undefined) checkAuthorities(caBytes, ca)
  return { cert: certBytes, key: keyBytes, ...(caBytes !== undefined && { ca: caBytes }) }
}

function checkAuthorities(bytes: Buffer, path: string | undefined): void {
  try {
    void new X509Certificate(bytes)
  } catch (error) {
    throw new Error(`${String(path)} holds no certificate: ${messageOf(error)}`, { cause: error })
  }
}

function same(a: Files, b: Files): boolean {
  return a.cert.equals(b.cert) && a.key.equals(b.key) && (a.ca === b.ca || (a.ca?.equals(b.ca ?? none) ?? false))
}

const none = Buffer.alloc(0)

function validityOf(cert: Buffer): { readonly validTo: string } {
  return { validTo: new X509Certificate(cert).validTo }
}

/** OpenSSL's words for the mistakes that are made, in words of ours. */
function reasonOf(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  if (code === 'ERR_OSSL_X509_KEY_VALUES_MISMATCH') return 'the key is not that of the certificate'
  return messageOf(error)
}
