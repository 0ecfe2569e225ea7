/**
 * Starts other programs without the host's open files. Node closes its own descriptors in a child, but not those that a native library
 * has opened without close-on-exec: LMDB's `data.mdb`, which is writable, is one of them. Nor does Node tell which those are.
 *
 * A shell therefore closes all descriptors that it was not given, and then becomes the program: it has the program's process id, and
 * sees only what would be inherited. dash, which is `/bin/sh` on Debian, cannot close descriptors above 9, so bash does it.
 */
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { FleetError } from '../contracts/errors.js'

const bash = '/bin/bash'

/**
 * The command that becomes the program with the descriptors below `given` only. All of `src` and `adapters` start programs in this way. On
 * macOS, the system closes the others, and on Windows they are not inherited.
 *
 * Throws `invalid` on a machine whose shells cannot close them.
 */
export function ownDescriptors(program: string, args: readonly string[], given = 3): [string, string[]] {
  if (process.platform !== 'linux') return [program, [...args]]
  shell ??= findShell()
  const close = `for _gamekeeper_fd in /proc/self/fd/*; do
_gamekeeper_fd=\${_gamekeeper_fd##*/}; [ "$_gamekeeper_fd" -ge ${given} ] 2>/dev/null && eval "exec $_gamekeeper_fd<&-"; done
unset _gamekeeper_fd; exec "$@"`
  return [shell, [...(shell === bash ? privileged : []), '-c', close, shell, program, ...args]]
}

/** Ignores variables such as BASH_ENV, which may be those of a game. */
const privileged: readonly string[] = ['-p']

let shell: string | undefined

function findShell(): string {
  if (existsSync(bash)) return bash
  // busybox can, for example.
  const { status } = spawnSync('/bin/sh', ['-c', "eval 'exec 10<&-'"], { stdio: 'ignore' })
  if (status === 0) return '/bin/sh'
  throw new FleetError('invalid', 'install bash: /bin/sh cannot close open files, which game servers would inherit')
}
