/**
 * Finds the program of a template before anything is started, so that "no such command" is said in words: the
 * supervisor's shell could only say 127. Reads the file system.
 */
import { accessSync, constants, statSync } from 'node:fs'
import { delimiter, join, resolve } from 'node:path'

export type Located =
  | { readonly ok: true; readonly path: string }
  /** 127: not there. 126: there, but it cannot be run. As every shell has it. */
  | { readonly ok: false; readonly exitCode: 126 | 127; readonly reason: string }

/** A command with a slash is looked for from `workingDir`, any other in the directories of `searchPath`. */
export function locateCommand(command: string, workingDir: string, searchPath: string | undefined): Located {
  if (kindOf(workingDir) !== 'directory') {
    return { ok: false, exitCode: 127, reason: `no such working directory: ${workingDir}` }
  }
  if (command === '') return { ok: false, exitCode: 127, reason: 'the template names no command' }
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
    // A directory that has the command's name is passed over in a search, as shells do.
    if (kind === 'directory' && isPath) unusable ??= `${place} is a directory`
  }
  if (unusable !== undefined) return { ok: false, exitCode: 126, reason: `cannot run ${command}: ${unusable}` }
  const looked = isPath ? workingDir : `PATH, which is ${searchPath ?? 'not set'}`
  return { ok: false, exitCode: 127, reason: `no such command: ${command} (looked in ${looked})` }
}

function kindOf(path: string): 'directory' | 'program' | 'file' | 'absent' {
  try {
    if (statSync(path).isDirectory()) return 'directory'
  } catch {
    // Not there, or behind a directory that this user may not enter: out of reach either way.
    return 'absent'
  }
  try {
    accessSync(path, constants.X_OK)
    return 'program'
  } catch {
    // The question was whether it may be run.
    return 'file'
  }
}
