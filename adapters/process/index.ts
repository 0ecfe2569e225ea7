/** `gamekeeper/process`: runs game servers as processes on this machine. */
import type { Backend } from '../../src/contracts/backend.js'
import { FleetError } from '../../src/contracts/errors.js'
import { ProcessBackend } from './backend.js'
import { type ProcessBackendOptions, resolveProcessOptions } from './options.js'

export type { PortRange } from '../../src/rules/model/ports.js'
export { isolationsHere } from './isolation/game-isolation.js'
export { limitsHere } from './isolation/cgroups.js'
export { inheritedVariables } from './run/game-launch.js'
export { endsGamesHere } from './run/process-manager.js'
export type { GameLimits, ProcessBackendOptions, RunAs } from './options.js'

/**
 * Runs each game server as a child process, using the command, arguments, environment and working directory of the template's
 * first container. The processes keep running when the host stops; the next host that uses the same directory recovers them.
 *
 * A server runs until the template's program exits; any processes left in its process group are then killed. `$(NAME)` in
 * command, arguments and values is expanded as in Kubernetes, including `PORT_<containerPort>`; `$$` becomes a single `$`.
 *
 * Throws `invalid` for an invalid option, naming it, for an `isolation`, `runAs` or `limits` that this machine cannot provide,
 * naming what is missing, and on Windows, which has no process groups. The first call opens the
 * directory and rejects with `directory-unusable` if it is not writable.
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
