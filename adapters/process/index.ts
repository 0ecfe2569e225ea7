/** `gamekeeper/process`: game servers as processes of this machine. */
import type { Backend } from '../../src/contracts/backend.js'
import { FleetError } from '../../src/contracts/errors.js'
import { ProcessBackend } from './backend.js'
import { type ProcessBackendOptions, resolveProcessOptions } from './options.js'

export type { PortRange } from '../../src/rules/model/ports.js'
export { inheritedVariables } from './environment.js'
export type { ProcessBackendOptions } from './options.js'

/**
 * Runs each game server as a child process: command, arguments, environment and working directory of the template's
 * first container. The processes outlive this host and are found again by the next one on the same directory.
 *
 * A server runs as long as the program of its template does; what that leaves behind in its process group is ended
 * with it. `$(NAME)` in command, arguments and values is replaced as in Kubernetes, `PORT_<containerPort>` included; `$$`
 * stands for one `$`.
 *
 * Throws `invalid` naming the option, and on Windows, which has no process groups. Touches no file before its first
 * call; that one rejects with `directory-unusable` when nothing can be kept in the directory.
 */
export function processBackend(options: ProcessBackendOptions = {}): Backend {
  if (process.platform === 'win32') {
    throw new FleetError(
      'invalid',
      'processBackend needs the process groups and signals of Linux or macOS, not Windows',
    )
  }
  return new ProcessBackend(resolveProcessOptions(options))
}
