/**
 * The version of the newest record that was written, in a file beside the data. If the data are older than it, they were replaced by
 * an older copy, or damage has hidden the newest transactions. Touches only this file.
 *
 * The file is not flushed, so a power loss may leave an older number in it, which hides nothing that it would otherwise show.
 */
import { closeSync, constants, fdatasync, readFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { openRegularFile } from '../../platform/regular-file.js'
import { isObject } from '../../rules/validation/problem.js'
import { jsonOf, seal } from './checksums.js'

const fileName = 'newest-version'

export class NewestVersion {
  /** The number in the file, or 0 if there is none or it is damaged. */
  readonly found: number
  readonly path: string
  readonly #file: number | undefined
  #version: number
  #flushing: Promise<void> | undefined

  constructor(directory: string) {
    this.path = join(directory, fileName)
    this.#file = openOrCreate(this.path)
    this.found = this.#file === undefined ? 0 : read(this.#file)
    this.#version = this.found
  }

  /** If that fails, for example because the disk is full, the file keeps an older number. */
  write(version: number): void {
    this.#version = version
    try {
      this.#write()
    } catch {
      // The record itself is durable.
    }
  }

  /** Throws the system's error if the file system takes no writes, such as one that has turned read-only. A full disk does not count. */
  throwIfUnwritable(): void {
    try {
      this.#write()
    } catch (error) {
      if (!isFull(error)) throw error
    }
  }

  /** As `throwIfUnwritable`, and also if the device behind the file system takes none. */
  flush(): Promise<void> {
    // A disk that hangs must not take one thread of the runtime for each call.
    return (this.#flushing ??= this.#flush().finally(() => (this.#flushing = undefined)))
  }

  async #flush(): Promise<void> {
    this.throwIfUnwritable()
    if (this.#file !== undefined) await promisify(fdatasync)(this.#file)
  }

  #write(): void {
    if (this.#file === undefined) return
    // Always the same length, so that nothing of an older text remains.
    writeSync(this.#file, seal(fileName, 0, `{"version":${String(this.#version).padStart(16)}}`), 0)
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

function isFull(error: unknown): boolean {
  return isObject(error) && (error['code'] === 'ENOSPC' || error['code'] === 'EDQUOT')
}

function read(file: number): number {
  try {
    const value: unknown = JSON.parse(jsonOf(fileName, 0, readFileSync(file, 'utf8')))
    return isObject(value) && typeof value['version'] === 'number' ? value['version'] : 0
  } catch {
    return 0
  }
}
