/** Finds the files of the project for the tests that read them. */
import { readdirSync, readFileSync } from 'node:fs'
import { join, relative, sep } from 'node:path'
import { fileURLToPath } from 'node:url'

export const root = fileURLToPath(new URL('../..', import.meta.url))

/** Every file under these folders, as sorted paths from the root with forward slashes. */
export function filesUnder(...folders: readonly string[]): readonly string[] {
  return folders
    .flatMap((folder) => readdirSync(join(root, folder), { withFileTypes: true, recursive: true }))
    .filter((entry) => entry.isFile())
    .map((entry) => relative(root, join(entry.parentPath, entry.name)).split(sep).join('/'))
    .toSorted()
}

export function read(file: string): string {
  return readFileSync(join(root, file), 'utf8')
}
