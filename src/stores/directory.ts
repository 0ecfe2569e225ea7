/** The directory of a file store: made, checked and flushed. Touches the file system only. */
import { access, constants, open, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { FleetError } from '../contracts/errors.js'
import { makeDirectories } from '../platform/make-directories.js'
import { reasonOf } from './failures.js'

export function directoryUnusable(directory: string, error: unknown): FleetError {
  return new FleetError('directory-unusable', `the directory ${directory} cannot be used: ${reasonOf(error)}`, {
    cause: error,
  })
}

/**
 * Makes the directory and its missing parents, closed to other users since records hold secrets. Returns the
 * directories whose entries are new, for `flushDirectories` once there is something in the last of them.
 */
export async function makeDirectory(directory: string): Promise<readonly string[]> {
  try {
    const firstMade = await makeDirectories(directory, 0o700)
    const changed = [directory]
    if (firstMade !== undefined) {
      for (let at = directory; at.length >= firstMade.length; at = dirname(at)) changed.push(dirname(at))
    }
    return changed
  } catch (error) {
    throw directoryUnusable(directory, error)
  }
}

/**
 * Makes sure that lmdb can open what is there, or make what is not. It must not fail at that: it would take the process
 * with it. Nor may there be no room for its lock file, which it maps into memory and then writes to.
 */
export async function checkFiles(directory: string): Promise<void> {
  try {
    await checkDataFile(join(directory, 'data.mdb'))
    // Not opened to see: closing it again would let go of a lock that this process has on it.
    if (!(await isUsable(join(directory, 'lock.mdb')))) await checkRoom(directory)
  } catch (error) {
    throw directoryUnusable(directory, error)
  }
}

async function checkDataFile(path: string): Promise<void> {
  if (!(await isUsable(path))) return
  const file = await open(path, 'r')
  try {
    const header = Buffer.alloc(64)
    const { bytesRead } = await file.read(header, 0, header.length, 0)
    const at = header.indexOf(lmdbMark)
    const version = at < 0 ? undefined : new Uint16Array(header.buffer.slice(at + 4, at + 6))[0]
    const { size } = await file.stat()
    // An empty one is that of a store whose making was interrupted.
    if (bytesRead > 0 && (version !== lmdbVersion || size < smallestBytes)) {
      throw new Error(`${path} is not a database of gamekeeper`)
    }
  } finally {
    await file.close()
  }
}

/** In the order of bytes of this machine, as lmdb writes it. */
const lmdbMark = Buffer.from(Uint32Array.of(0xbeef_c0de).buffer)
const lmdbVersion = 2
/** Two pages of headers. */
const smallestBytes = 2 * 4_096

async function checkRoom(directory: string): Promise<void> {
  const probe = join(directory, `room-${process.pid}.tmp`)
  try {
    await writeFile(probe, Buffer.alloc(firstBytes), { flush: true, mode: 0o600 })
  } finally {
    await rm(probe, { force: true })
  }
}

const firstBytes = 256 * 1_024

/** A flushed file is still lost with the power if the name that leads to it was not flushed as well. */
export async function flushDirectories(directories: readonly string[]): Promise<void> {
  // Windows flushes names by itself and cannot open a directory.
  if (process.platform === 'win32') return
  for (const directory of directories) {
    const handle = await open(directory, 'r').catch((error: unknown) => {
      // A parent that may be written but not read cannot be flushed by anyone but its owner.
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

/** False when it is not there. Throws when it is there and must not be read and written. */
async function isUsable(path: string): Promise<boolean> {
  try {
    await access(path, constants.R_OK | constants.W_OK)
    return true
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return false
    throw error
  }
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined
}
