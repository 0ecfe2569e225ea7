/** Creates directories, and opens files that must be regular ones. Touches only the file system. */
import { closeSync, constants, fstatSync, openSync, readFileSync, type Stats } from 'node:fs'
import { type FileHandle, mkdir, open, stat } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { isError } from '../rules/model/values.js'

/**
 * Creates a directory and its missing parents. Returns the topmost directory that was missing, or undefined if none was.
 * Rejects with the system's error. Does not use Node's `recursive` option, which loops forever if the system fails with
 * ENOENT, as it does below `/proc`.
 */
export async function makeDirectories(directory: string, mode: number): Promise<string | undefined> {
  const missing: string[] = []
  let at = resolve(directory)
  while (!(await exists(at))) {
    missing.unshift(at)
    at = dirname(at)
  }
  for (const path of missing) await create(path, mode)
  return missing[0]
}

async function create(path: string, mode: number): Promise<void> {
  try {
    await mkdir(path, { mode })
  } catch (error) {
    // Another process may have created the directory in the meantime. A file or a dangling link is an error.
    if (!(await isDirectory(path))) throw error
  }
}

async function exists(path: string): Promise<boolean> {
  try {
    if ((await stat(path)).isDirectory()) return true
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return false
    throw error
  }
  // The path is a file, so mkdir fails with the system's error.
  await mkdir(path)
  return true
}

async function isDirectory(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isDirectory()
  } catch {
    // The caller throws the error from mkdir.
    return false
  }
}

// Opens files that must be regular ones. Opening a named pipe waits until another process opens its other end, so a pipe in the
// place of a file would stop the host.

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

/** Returns the `code` of a system error, such as `ENOENT`, or an empty string for any other error. */
export function codeOf(error: unknown): string {
  return isError(error) && 'code' in error && typeof error.code === 'string' ? error.code : ''
}
