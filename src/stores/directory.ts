/** Creates, checks and flushes the directory of a file store. Touches only the file system. */
import { statfsSync } from 'node:fs'
import { access, constants, open, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { FleetError } from '../contracts/errors.js'
import { codeOf, makeDirectories, NotAFile } from '../platform/files.js'
import { failureReason } from './lmdb-environment.js'

export function directoryUnusable(directory: string, error: unknown): FleetError {
  return new FleetError('directory-unusable', `cannot use the directory ${directory}: ${failureReason(error)}`, {
    cause: error,
  })
}

/**
 * Creates the directory and its missing parents. Other users get no access, since records contain secrets. Returns the
 * directories that have new entries, for `flushDirectories` after the first write.
 */
export async function createDirectory(directory: string): Promise<readonly string[]> {
  try {
    const firstCreated = await makeDirectories(directory, 0o700)
    const changed = [directory]
    if (firstCreated !== undefined) {
      for (let at = directory; at.length >= firstCreated.length; at = dirname(at)) changed.push(dirname(at))
    }
    return changed
  } catch (error) {
    throw directoryUnusable(directory, error)
  }
}

/**
 * Checks that lmdb can open or create its files, and that there is space for its memory-mapped lock file. A failure inside
 * lmdb could end the process.
 */
export async function checkFiles(directory: string): Promise<void> {
  try {
    for (const name of ['data.mdb', 'lock.mdb', 'newest-version']) await checkFile(join(directory, name))
    await checkDataFile(join(directory, 'data.mdb'))
    // The lock file is not opened for this check: closing it would release a lock that this process may hold.
    if (!(await isUsable(join(directory, 'lock.mdb')))) await checkFreeSpace(directory)
  } catch (error) {
    throw directoryUnusable(directory, error)
  }
}

/** Throws NotAFile: lmdb would wait for a named pipe for ever. */
export async function checkFile(path: string): Promise<void> {
  const stats = await stat(path).catch((error: unknown) => {
    if (codeOf(error) !== 'ENOENT') throw error
  })
  if (stats && !stats.isFile()) throw new NotAFile(path, stats)
}

async function checkDataFile(path: string): Promise<void> {
  if (!(await isUsable(path))) return
  const file = await open(path, 'r')
  try {
    const header = Buffer.alloc(64)
    const { bytesRead } = await file.read(header, 0, header.length, 0)
    const at = header.indexOf(lmdbMagic)
    const version = at < 0 ? undefined : new Uint16Array(header.buffer.slice(at + 4, at + 6))[0]
    const { size } = await file.stat()
    // An interrupted creation leaves an empty file.
    if (bytesRead > 0 && (version !== lmdbVersion || size < minDataBytes)) {
      throw new Error(`${path} is not a gamekeeper database`)
    }
  } finally {
    await file.close()
  }
}

/** lmdb writes this number in the machine's byte order. */
const lmdbMagic = Buffer.from(Uint32Array.of(0xbeef_c0de).buffer)
const lmdbVersion = 2
/** The size of the two header pages. */
const minDataBytes = 2 * 4_096

async function checkFreeSpace(directory: string): Promise<void> {
  const probe = join(directory, `space-check-${process.pid}.tmp`)
  try {
    await writeFile(probe, Buffer.alloc(initialBytes), { flush: true, mode: 0o600 })
  } finally {
    await rm(probe, { force: true })
  }
}

const initialBytes = 256 * 1_024

/** What this user may still write to the file system of the directory. Infinity if it does not say. */
export function freeBytes(directory: string): number {
  const { bavail, blocks, bsize } = statfsSync(directory)
  return blocks === 0 ? Infinity : bavail * bsize
}

/** A flushed file survives a power loss only if the directory entries on its path are flushed as well. */
export async function flushDirectories(directories: readonly string[]): Promise<void> {
  // Windows flushes directory entries itself, and Node cannot open a directory there.
  if (process.platform === 'win32') return
  for (const directory of directories) {
    const handle = await open(directory, 'r').catch((error: unknown) => {
      // A parent directory that is writable but not readable can be flushed only by its owner.
      if (codeOf(error) === 'EACCES') return undefined
      throw error
    })
    try {
      await handle?.sync()
    } finally {
      await handle?.close()
    }
  }
}

/** Returns false if the file does not exist. Throws if it exists but is not readable and writable. */
async function isUsable(path: string): Promise<boolean> {
  try {
    await access(path, constants.R_OK | constants.W_OK)
    return true
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return false
    throw error
  }
}
