/** Real certificates for tests, made with the `openssl` command: authorities, and certificates that they sign. */
import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'

const exec = promisify(execFile)

/** Paths of PEM files. */
export interface Certified {
  readonly cert: string
  readonly key: string
}

export interface Authority extends Certified {
  /** A certificate signed by this authority, for 127.0.0.1 and localhost. */
  issue(commonName: string): Promise<Certified>
}

export interface Workshop {
  readonly folder: string
  authority(name: string): Promise<Authority>
  remove(): Promise<void>
}

const ecKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2']

export async function certificates(): Promise<Workshop> {
  const folder = await mkdtemp(join(tmpdir(), 'gamekeeper-certificates-'))
  let count = 0

  async function make(commonName: string, more: readonly string[]): Promise<Certified> {
    const base = join(folder, `${++count}-${commonName}`)
    const made = { cert: `${base}.pem`, key: `${base}.key` }
    const subject = ['-subj', `/CN=${commonName}`]
    await exec('openssl', ['req', '-x509', ...ecKey, ...subject, '-keyout', made.key, '-out', made.cert, ...more])
    return made
  }

  return {
    folder,
    async authority(name) {
      const own = await make(name, [])
      return {
        ...own,
        issue: (commonName) =>
          make(commonName, [
            ...['-CA', own.cert, '-CAkey', own.key],
            ...['-addext', 'basicConstraints=critical,CA:FALSE'],
            ...['-addext', 'subjectAltName=IP:127.0.0.1,DNS:localhost'],
          ]),
      }
    },
    remove: () => rm(folder, { recursive: true, force: true }),
  }
}
