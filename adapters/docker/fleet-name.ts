/** The name that tells one fleet's containers from another's: drawn once, and kept in the fleet's directory. */
import { readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Clock } from '../../src/contracts/clock.js'
import { FleetError, messageOf } from '../../src/contracts/errors.js'
import { makeDirectories } from '../../src/platform/make-directories.js'
import { isFleetName } from './options.js'

const fileName = 'docker-fleet'

/** Rejects with `directory-unusable` when it can neither be read nor kept. */
export async function keptFleetName(directory: string, clock: Clock): Promise<string> {
  const path = join(directory, fileName)
  try {
    const kept = await readKept(path)
    if (kept !== undefined) return kept
    const drawn = Buffer.from(clock.randomBytes(5)).toString('hex')
    await makeDirectories(directory, 0o700)
    await writeFile(`${path}.tmp`, `${drawn}\n`, { mode: 0o600, flush: true })
    await rename(`${path}.tmp`, path)
    return drawn
  } catch (error) {
    const message = `dockerBackend cannot keep the name of its fleet in ${directory}: ${messageOf(error)}`
    throw new FleetError('directory-unusable', message, { cause: error })
  }
}

async function readKept(path: string): Promise<string | undefined> {
  let text: string
  try {
    text = (await readFile(path, 'utf8')).trim()
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
    throw error
  }
  if (isFleetName(text)) return text
  throw new Error(`${path} holds no name of a fleet`)
}
