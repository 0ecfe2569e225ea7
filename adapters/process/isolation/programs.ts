/** The helper programs that restrict a game. Looks for them in fixed directories. */
import { accessSync, constants, statSync } from 'node:fs'
import { delimiter, join, resolve } from 'node:path'
import { FleetError } from '../../../src/contracts/errors.js'

/** PATH of the helper programs, which run as this host: the game's own PATH could name other programs. */
export const systemPath = '/usr/sbin:/usr/bin:/sbin:/bin'

/** Returns the program's path. Throws `invalid` if it is missing, naming the option that needs it. */
export function helperProgram(name: string, option: string): string {
  const located = locateCommand(name, '/', systemPath)
  if (located.ok) return located.path
  throw cannot(option, `it needs the program ${name}`)
}

/** The error of an option that this machine cannot provide. */
export function cannot(option: string, why: string): FleetError {
  return new FleetError('invalid', `processBackend: ${option} cannot be used here: ${why}`)
}

// Locates a template's program before it is started, to report a clearer reason for failure than a shell's exit code 127.
// Reads the file system.

type Located =
  | { readonly ok: true; readonly path: string }
  /** As in shells, 127 means not found and 126 means not executable. */
  | { readonly ok: false; readonly exitCode: 126 | 127; readonly reason: string }

/** Resolves a command that contains a slash against `workingDir`; searches for any other command in `searchPath`. */
export function locateCommand(command: string, workingDir: string, searchPath: string | undefined): Located {
  if (kindOf(workingDir) !== 'directory') {
    return { ok: false, exitCode: 127, reason: `no such working directory: ${workingDir}` }
  }
  if (command === '') return { ok: false, exitCode: 127, reason: 'the template has no command' }
  const isPath = command.includes('/')
  const places = isPath
    ? [resolve(workingDir, command)]
    : (searchPath ?? '')
        .split(delimiter)
        .filter((part) => part !== '')
        .map((part) => join(resolve(workingDir, part), command))

  let unusable: string | undefined
  for (const place of places) {
    const kind = kindOf(place)
    if (kind === 'program') return { ok: true, path: place }
    if (kind === 'file') unusable ??= `${place} is not executable`
    // As in shells, a search skips directories.
    if (kind === 'directory' && isPath) unusable ??= `${place} is a directory`
  }
  if (unusable !== undefined) return { ok: false, exitCode: 126, reason: `cannot run ${command}: ${unusable}` }
  const searched = isPath ? workingDir : `PATH, which is ${searchPath ?? 'not set'}`
  return { ok: false, exitCode: 127, reason: `no such command: ${command} (searched ${searched})` }
}

function kindOf(path: string): 'directory' | 'program' | 'file' | 'absent' {
  try {
    if (statSync(path).isDirectory()) return 'directory'
  } catch {
    // The file is missing, or is inside a directory that this user may not enter.
    return 'absent'
  }
  try {
    accessSync(path, constants.X_OK)
    return 'program'
  } catch {
    // `accessSync` throws if the file is not executable.
    return 'file'
  }
}
