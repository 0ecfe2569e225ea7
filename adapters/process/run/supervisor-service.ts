/**
 * Starts the supervisor of a game as a service of systemd. The service's command is a script in the run directory, which only root may
 * read: the properties of a service, and with them its command, are public, but the game's variables are not.
 */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { identityOf, type ProcessIdentity } from '../../../src/platform/process-identity.js'
import { systemPath } from '../isolation/programs.js'
import { mainProcess, startService } from '../isolation/systemd.js'
import { carriesMark } from '../processes/process-group.js'
import {
  cancelStart,
  notStartedCode,
  quote,
  readSupervisorPid,
  supervisorCommand,
  type SupervisorInput,
} from './supervisor.js'

export interface StartedService {
  /** Process id of the supervisor, which is also the process group id. */
  readonly group: number
  /** Missing if the supervisor has already exited or cannot be identified. */
  readonly leader?: ProcessIdentity
}

/**
 * Resolves once the supervisor is running or has exited; with undefined if it could not run. `properties` are arguments of `systemd-run`.
 * Rejects with `unavailable` if systemd does not start the service.
 */
export async function startInService(
  input: SupervisorInput,
  properties: readonly string[],
  option: string,
): Promise<StartedService | undefined> {
  const { runDirectory, mark } = input
  const script = join(runDirectory, 'start')
  await writeFile(script, scriptOf(input), { mode: 0o600, flag: 'wx' })
  const command = ['/usr/bin/env', '-i', `PATH=${systemPath}`, '/bin/sh', script]
  try {
    await startService(properties, command, option)
  } catch (error) {
    // systemd may still start it, for example if it was slow to answer.
    if (cancelStart(runDirectory)) throw error
  }
  const written = () => readSupervisorPid(runDirectory)
  const group = (await mainProcess(mark, option)) ?? written() ?? (cancelStart(runDirectory) ? undefined : written())
  return group === undefined ? undefined : { group, ...leaderOf(group, mark) }
}

/** Returns nothing if the supervisor has already exited or cannot be identified now. */
function leaderOf(pid: number, mark: string): { readonly leader?: ProcessIdentity } {
  try {
    const leader = identityOf(pid)
    return leader && carriesMark(pid, mark) ? { leader } : {}
  } catch {
    // The service has been started and must not be lost because of this error.
    return {}
  }
}

function scriptOf(input: SupervisorInput): string {
  const { args, env } = supervisorCommand(input)
  const variables = Object.entries(env).map(([name, value]) => `export ${name}=${quote(value)}`)
  const start = ['exec', '/bin/sh', ...args.map(quote)].join(' ')
  return [...variables, `cd ${quote(input.workingDir)} || exit ${notStartedCode}`, start, ''].join('\n')
}
