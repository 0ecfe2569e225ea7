/** Copies a file store to another directory while it is in use. Touches both directories, through lmdb and the file system. */
import { chmod, mkdtemp, open, readdir, rename, rm } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { FleetError } from '../contracts/errors.js'
import { codeOf } from '../platform/error-code.js'
import { makeDirectories } from '../platform/make-directories.js'
import { release } from './claim.js'
import { flushDirectories } from './directory.js'
import { type Environment, type Lmdb, openEnvironment } from './environment.js'
import { reasonOf } from './failures.js'

/**
 * Copies the records, as they are at one moment, to `directory`, from which a store can be opened at once. The copy appears there
 * whole or not at all. Rejects with `invalid` if the directory is not empty, and with `directory-unusable` if it cannot be written.
 */
export async function backUp(lmdb: Lmdb, { root }: Environment, directory: string): Promise<void> {
  const target = resolve(directory)
  await checkEmpty(target)
  let partial: string | undefined
  try {
    await makeDirectories(dirname(target), 0o700)
    partial = await mkdtemp(`${target}.partial-`)
    await root.backup(partial, true)
    await makeOwn(lmdb, partial)
    await rename(partial, target)
    await flushDirectories([dirname(target)])
  } catch (error) {
    if (partial !== undefined) await rm(partial, { recursive: true, force: true })
    if (FleetError.is(error)) throw error
    const message = `cannot write the backup ${target}: ${reasonOf(error)}`
    throw new FleetError('directory-unusable', message, { cause: error })
  }
}

async function checkEmpty(directory: string): Promise<void> {
  const names = await readdir(directory).catch((error: unknown) => {
    if (codeOf(error) === 'ENOENT') return []
    throw new FleetError('directory-unusable', `cannot read ${directory}: ${reasonOf(error)}`, { cause: error })
  })
  if (names.length === 0) return
  throw new FleetError('invalid', `the backup needs a directory of its own, but ${directory} is not empty`)
}

/** Removes the claim of this process, which holds the original and not the copy. Leaves only the data file, flushed. */
async function makeOwn(lmdb: Lmdb, directory: string): Promise<void> {
  const file = join(directory, 'data.mdb')
  await chmod(file, 0o600)
  const copy = openEnvironment(lmdb, directory)
  try {
    release(copy)
  } finally {
    await copy.root.close()
  }
  await rm(join(directory, 'lock.mdb'), { force: true })
  const handle = await open(file, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
  await flushDirectories([directory])
}
