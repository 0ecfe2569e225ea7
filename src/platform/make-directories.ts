/** Makes directories. Touches the file system only. */
import { mkdir, stat } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'

/**
 * Makes a directory and those of its parents that are missing; returns the first that was. Rejects with the system's
 * error. Node's own `recursive` spins for ever where the system will not make a name and says ENOENT, as below `/proc`.
 */
export async function makeDirectories(directory: string, mode: number): Promise<string | undefined> {
  const missing: string[] = []
  let at = resolve(directory)
  while (!(await isThere(at))) {
    missing.unshift(at)
    at = dirname(at)
  }
  for (const path of missing) await make(path, mode)
  return missing[0]
}

async function make(path: string, mode: number): Promise<void> {
  try {
    await mkdir(path, { mode })
  } catch (error) {
    // Somebody else may have made it in the meantime; a file, or a link to nowhere, is in the way.
    if (!(await isDirectory(path))) throw error
  }
}

async function isThere(path: string): Promise<boolean> {
  try {
    if ((await stat(path)).isDirectory()) return true
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return false
    throw error
  }
  // A file: let the system say so in its own words.
  await mkdir(path)
  return true
}

async function isDirectory(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isDirectory()
  } catch {
    // The error that led here is the one to tell.
    return false
  }
}
