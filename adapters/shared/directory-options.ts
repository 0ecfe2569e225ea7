/** The options of backends that keep a directory on this machine, with a store in it. */
import { join, resolve } from 'node:path'
import type { DefaultStore } from '../../src/contracts/backend.js'
import type { OptionReader } from './option-reader.js'

export interface DirectoryOptions {
  /**
   * Directory that contains the default store and what else the backend keeps. Each fleet needs its own. Default `.gamekeeper` in the
   * working directory.
   */
  readonly directory?: string
  /**
   * How long a start waits for another host that uses the directory, such as the process that a deployment replaces. Its game servers keep
   * running. Default: 0, which rejects with `directory-in-use` at once.
   */
  readonly waitForDirectoryMs?: number
}

export const directoryOptionNames = [
  'directory',
  'waitForDirectoryMs',
] as const satisfies readonly (keyof DirectoryOptions)[]

/** Throws `invalid`, naming the invalid option. */
export function readDirectoryOptions(reader: OptionReader, options: DirectoryOptions): Required<DirectoryOptions> {
  return {
    directory: resolve(reader.string('directory', options.directory, '.gamekeeper')),
    waitForDirectoryMs: reader.integer('waitForDirectoryMs', options.waitForDirectoryMs, 0, 0),
  }
}

export function storeIn({ directory, waitForDirectoryMs }: Required<DirectoryOptions>) {
  return { kind: 'file', directory: join(directory, 'store'), waitForDirectoryMs } as const satisfies DefaultStore
}
