/**
 * Has another process read and use the whole of data.mdb before this one opens it: lmdb follows damaged page numbers and offsets, and can
 * end the process that does. What that process survives, this one survives.
 */
import { spawn } from 'node:child_process'
import { stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { messageOf } from '../contracts/errors.js'
import type { Logger } from '../contracts/logger.js'
import { codeOf } from '../platform/files.js'
import { ownDescriptors } from '../platform/own-descriptors.js'
import { requireHere } from '../platform/packages.js'
import { storeDamaged } from './lmdb-environment.js'

/** What damage does to a process. Other signals come from outside. */
const crashes: readonly (string | null)[] = ['SIGSEGV', 'SIGBUS', 'SIGABRT', 'SIGILL', 'SIGFPE', 'SIGTRAP']

/**
 * Throws `directory-unusable` if the data in a directory are damaged so that lmdb cannot use them. `original` is the directory that the
 * message names. Changes nothing. If no process can be started, logs a warning and returns.
 */
export async function checkInChild(directory: string, logger?: Logger, original = directory): Promise<void> {
  const bytes = await sizeOf(join(directory, 'data.mdb'))
  // lmdb creates the file, or repeats an interrupted creation.
  if (bytes === 0) return
  const { problem, failure } = await run(directory, bytes)
  if (problem !== undefined) throw storeDamaged(original, { problems: [`data.mdb is damaged: ${problem}`] })
  if (failure === undefined) return
  const message = 'data.mdb could not be checked by another process; if it is damaged, lmdb may end this one'
  logger?.warn({ directory: original, reason: failure }, message)
}

async function sizeOf(path: string): Promise<number> {
  const stats = await stat(path).catch((error: unknown) => {
    if (codeOf(error) !== 'ENOENT') throw error
  })
  return stats?.size ?? 0
}

/** Neither: the data can be used. */
interface Outcome {
  readonly problem?: string
  /** Why the data could not be checked. */
  readonly failure?: string
}

async function run(directory: string, bytes: number): Promise<Outcome> {
  const { execPath } = process
  // The executable of a single-file app would run the app once more.
  if (!/^(node|nodejs|bun|deno)[\d.]*(\.exe)?$/.test(basename(execPath))) return { failure: `${execPath} is not Node` }
  try {
    return await new Promise((resolve, reject) => {
      const args = ['-e', program, requireHere().resolve('lmdb'), directory, String(bytes)]
      const child = spawn(...ownDescriptors(execPath, args), {
        env: { ...process.env, NODE_OPTIONS: '' },
        stdio: ['ignore', 'pipe', 'ignore'],
        // Reads 100 MB in less than a second.
        timeout: 60_000 + Math.ceil(bytes / 10_000),
        killSignal: 'SIGKILL',
        windowsHide: true,
      })
      let said = ''
      child.stdout.setEncoding('utf8').on('data', (text: string) => (said += text))
      child.once('error', reject)
      child.once('close', (code, signal) => {
        const [ready, problem = ''] = said.split('\n')
        if (code === 0) resolve({})
        else if (ready !== 'ready') resolve({ failure: `the process ended with ${code ?? signal}` })
        else if (child.killed) resolve({ problem: 'a process that used it did not end' })
        else if (crashes.includes(signal)) resolve({ problem: `a process that used it ended with ${signal}` })
        else if (signal !== null) resolve({ failure: `the process was ended with ${signal}` })
        else resolve({ problem: problem || `a process that used it ended with ${code}` })
      })
    })
  } catch (error) {
    return { failure: messageOf(error) }
  }
}

/** Runs in the other process, without any other code of this package, whose files may be part of a bundle. */
const program = String.raw`
const { writeSync } = require('node:fs')
const [lmdb, directory, bytes] = process.argv.slice(1)
const { open, ABORT } = require(lmdb)
writeSync(1, 'ready\n')
try {
  const encoding = 'binary'
  const root = open(directory, { encoding, noSubdir: false, maxDbs: 16, permissionsMode: 0o600, overlappingSync: false })
  // A commit may take pages and free them again without writing them, and another host may be writing.
  const longest = Number(bytes) + 2 ** 28
  const { lastPageNumber, pageSize } = root.getStats()
  if (lastPageNumber * pageSize > longest) throw new Error('its last page is far beyond its end')
  const databases = Array.from(root.getKeys()).filter((name) => name !== 'contents').map((name) => {
    const database = root.openDB(name, { encoding, useVersions: name !== 'about', create: false })
    if (!database) throw new Error('a collection cannot be opened')
    return database
  })
  let left = longest
  for (const database of databases) {
    for (const { key, value } of database.getRange()) {
      left -= key.length + value.length
      if (!(left >= 0)) throw new Error('its records are longer than the file')
    }
  }
  // Writing also uses what reading does not: the numbers of the pages themselves, and the list of free ones.
  root.transactionSync(() => {
    for (const database of databases) for (const key of Array.from(database.getKeys())) database.removeSync(key)
    root.putSync('check', Buffer.alloc(65536))
    return ABORT
  })
} catch (error) {
  writeSync(1, error.message)
  process.exit(1)
}
`
