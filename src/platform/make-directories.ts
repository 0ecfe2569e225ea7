/** Creates directories. Touches only the file system. */
import { mkdir, stat } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { codeOf } from './error-code.js'

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
