/** Locates a template's program before the start, for a reason that is clearer than a shell's exit code 127. Reads the file system. */
import { accessSync, constants, statSync } from 'node:fs'
import { delimiter, join, resolve } from 'node:path'

export type Located =
  | { readonly ok: true; readonly path: string }
  /** As in shells: 127 for not found, 126 for not executable. */
  | { readonly ok: false; readonly exitCode: 126 | 127; readonly reason: string }

/** A command with a slash is resolved against `workingDir`, any other one is searched for in `searchPath`. */
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
    // In a search, directories are skipped, as in shells.
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
    // Missing, or inside a directory that this user may not enter.
    return 'absent'
  }
  try {
    accessSync(path, constants.X_OK)
    return 'program'
  } catch {
    // Not executable, which is the answer.
    return 'file'
  }
}
