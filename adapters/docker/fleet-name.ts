/**
 * The name that distinguishes this fleet's containers from those of other fleets. Generated once and stored in the fleet's
 * directory.
 */
import { readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Clock } from '../../src/contracts/clock.js'
import { FleetError, messageOf } from '../../src/contracts/errors.js'
import { codeOf } from '../../src/platform/error-code.js'
import { makeDirectories } from '../../src/platform/make-directories.js'
import { isFleetName } from './options.js'

const fileName = 'docker-fleet'

/** Rejects with `directory-unusable` if the name can be neither read nor written. */
export async function loadFleetName(directory: string, clock: Clock): Promise<string> {
  const path = join(directory, fileName)
  try {
    const stored = await readStored(path)
    if (stored !== undefined) return stored
    const generated = Buffer.from(clock.randomBytes(5)).toString('hex')
    await makeDirectories(directory, 0o700)
    await writeFile(`${path}.tmp`, `${generated}\n`, { mode: 0o600, flush: true })
    await rename(`${path}.tmp`, path)
    return generated
  } catch (error) {
    const message = `dockerBackend cannot store its fleet name in ${directory}: ${messageOf(error)}`
    throw new FleetError('directory-unusable', message, { cause: error })
  }
}

async function readStored(path: string): Promise<string | undefined> {
  let text: string
  try {
    text = (await readFile(path, 'utf8')).trim()
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw error
  }
  if (isFleetName(text)) return text
  throw new Error(`${path} contains no valid fleet name`)
}
