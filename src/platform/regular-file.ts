/**
 * Opens files that must be regular ones. Opening a named pipe waits until another process opens its other end, so a pipe in the
 * place of a file would stop the host.
 */
import { closeSync, constants, fstatSync, openSync, readFileSync, type Stats } from 'node:fs'
import { open, type FileHandle } from 'node:fs/promises'

/** Has no effect on regular files. Not defined on Windows. */
const nonBlocking = constants.O_NONBLOCK ?? 0

/** Thrown instead of opening something else. Its message names the path and what is there. */
export class NotAFile extends Error {
  readonly code = 'NOT_A_FILE'

  constructor(path: string, stats: Stats) {
    super(`${path} is ${kindOf(stats)}, not a regular file: remove it`)
  }
}

/** Throws NotAFile, or the system's error. The caller closes the descriptor. */
export function openRegularFile(path: string, flags: number, mode?: number): number {
  const file = openSync(path, flags | nonBlocking, mode)
  const stats = fstatSync(file)
  if (stats.isFile()) return file
  closeSync(file)
  throw new NotAFile(path, stats)
}

/** Throws NotAFile, or the system's error. */
export function readRegularFile(path: string, encoding: 'utf8' | 'latin1' = 'utf8'): string {
  const file = openRegularFile(path, constants.O_RDONLY)
  try {
    return readFileSync(file, encoding)
  } finally {
    closeSync(file)
  }
}

/** Opens a file for reading. Rejects with NotAFile, or with the system's error. */
export async function openForReading(path: string): Promise<FileHandle> {
  const file = await open(path, constants.O_RDONLY | nonBlocking)
  const stats = await file.stat()
  if (stats.isFile()) return file
  await file.close()
  throw new NotAFile(path, stats)
}

function kindOf(stats: Stats): string {
  if (stats.isDirectory()) return 'a directory'
  if (stats.isFIFO()) return 'a named pipe'
  return stats.isSocket() ? 'a socket' : 'a device'
}
