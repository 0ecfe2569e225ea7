/**
 * The standard input of a game: a named pipe in the run directory. Its supervisor, and the game with it, hold it open for reading and
 * writing, so it has no end: hosts come and go, and each opens it to write a line.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { constants } from 'node:fs'
import { chown, type FileHandle, open } from 'node:fs/promises'
import { FleetError } from '../../../src/contracts/errors.js'
import { codeOf } from '../../../src/platform/files.js'
import { ownDescriptors } from '../../../src/platform/own-descriptors.js'
import type { Ref } from '../../../src/rules/model/resources.js'
import { noStdin } from '../../shared/backend-lifecycle.js'
import { helperProgram } from '../isolation/programs.js'
import type { GameUser } from '../isolation/users.js'

/** Creates the pipe. The game may open it again, as /dev/stdin. Throws `invalid` without the program mkfifo. */
export async function makeStdin(path: string, user: GameUser | undefined): Promise<void> {
  const mkfifo = helperProgram('mkfifo', 'stdin: true')
  const child = spawn(...ownDescriptors(mkfifo, ['-m', '600', path]), {
    // Out of reach of a terminal's Ctrl-C.
    detached: true,
    stdio: 'ignore',
  })
  const [code] = await once(child, 'close')
  if (code !== 0) throw new FleetError('unavailable', `cannot create the named pipe ${path}`)
  if (user) await chown(path, user.uid, user.gid)
}

/**
 * Writes a line without waiting for the game. Linux takes up to 4 KiB as a whole or not at all. Rejects with `no-stdin`, or with the
 * system's error.
 */
export async function writeStdin(path: string, ref: Ref, line: string): Promise<void> {
  let pipe: FileHandle | undefined
  try {
    pipe = await open(path, constants.O_WRONLY | constants.O_NONBLOCK)
    await pipe.write(line)
  } catch (error) {
    const why = causes[codeOf(error)]
    throw why === undefined ? error : noStdin(ref, why, error)
  } finally {
    await pipe?.close()
  }
}

const causes: Readonly<Record<string, 'closed' | 'ended' | 'full'>> = {
  ENOENT: 'closed',
  ENXIO: 'ended',
  EAGAIN: 'full',
}
