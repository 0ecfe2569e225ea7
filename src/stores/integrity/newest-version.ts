/**
 * The version of the newest record that was written, in a file beside the data. If the data are older than it, they were replaced by
 * an older copy, or damage has hidden the newest transactions. Touches only this file.
 *
 * The file is not flushed, so a power loss may leave an older number in it, which hides nothing that it would otherwise show.
 */
import { closeSync, constants, readFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { openRegularFile } from '../../platform/regular-file.js'
import { isObject } from '../../rules/validation/problem.js'
import { jsonOf, seal } from './record-text.js'

const fileName = 'newest-version'

export class NewestVersion {
  /** The number in the file, or 0 if there is none or it is damaged. */
  readonly found: number
  readonly path: string
  readonly #file: number | undefined

  constructor(directory: string) {
    this.path = join(directory, fileName)
    this.#file = openOrCreate(this.path)
    this.found = this.#file === undefined ? 0 : read(this.#file)
  }

  /** If that fails, for example because the disk is full, the file keeps an older number. */
  write(version: number): void {
    if (this.#file === undefined) return
    try {
      // Always the same length, so that nothing of an older text remains.
      writeSync(this.#file, seal(fileName, 0, `{"version":${String(version).padStart(16)}}`), 0)
    } catch {
      // The record itself is durable.
    }
  }

  close(): void {
    if (this.#file !== undefined) closeSync(this.#file)
  }
}

/** Returns undefined if the disk is full or write-protected: the store then works without the file. */
function openOrCreate(path: string): number | undefined {
  try {
    return openRegularFile(path, constants.O_RDWR | constants.O_CREAT, 0o600)
  } catch {
    return undefined
  }
}

function read(file: number): number {
  try {
    const value: unknown = JSON.parse(jsonOf(fileName, 0, readFileSync(file, 'utf8')))
    return isObject(value) && typeof value['version'] === 'number' ? value['version'] : 0
  } catch {
    return 0
  }
}
