/** Asks this machine's systemd to start services. Runs `systemd-run` and `systemctl`. */
import { execFile, spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { promisify } from 'node:util'
import { FleetError, messageOf } from '../../../src/contracts/errors.js'
import { ownDescriptors } from '../../../src/platform/own-descriptors.js'
import { isObject } from '../../../src/rules/validation/problem.js'
import { cannot, helperProgram, systemPath } from './programs.js'
import { literal, serviceOf, slice } from './systemd-unit.js'
import { isRoot } from './users.js'

/** The first version with `ProtectProc` and `PrivateIPC`. */
const minVersion = 248
const timeoutMs = 20_000
const env = { PATH: systemPath, LC_ALL: 'C' }
const common = ['--quiet', '--collect', `--slice=${slice}`]

/** Throws `invalid` unless this host may start services, naming what is missing. */
export function requireSystemd(option: string): void {
  if (process.platform !== 'linux') throw cannot(option, 'it needs Linux')
  if (!existsSync('/run/systemd/system')) {
    throw cannot(option, 'systemd does not run here: it must be process 1 of this machine or container')
  }
  if (!isRoot()) throw cannot(option, 'this host must run as root, to start services')
  const { stdout } = spawnSync(...ownDescriptors(helperProgram('systemd-run', option), ['--version']), {
    env,
    encoding: 'utf8',
  })
  const version = Number(/^systemd (\d+)/.exec(stdout ?? '')?.[1])
  if (!(version >= minVersion)) throw cannot(option, `it needs systemd ${minVersion} or later, but found ${version}`)
}

/** Runs a command in a service with these restrictions. Returns undefined if it succeeds, or why it does not. */
export function tryService(
  restricted: readonly string[],
  command: readonly string[],
  option: string,
): string | undefined {
  const args = [
    ...common,
    '--wait',
    '--pipe',
    '--description=test of gamekeeper',
    ...restricted,
    '--',
    ...command.map(literal),
  ]
  const result = spawnSync(...ownDescriptors(helperProgram('systemd-run', option), args), {
    env,
    encoding: 'utf8',
    timeout: timeoutMs,
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  if (result.status === 0) return undefined
  return result.stderr?.trim() || `a test ended with ${result.error?.message ?? String(result.status)}`
}

/** Rejects with `unavailable` if systemd does not start the service. */
export async function startService(args: readonly string[], command: readonly string[], option: string): Promise<void> {
  const program = helperProgram('systemd-run', option)
  try {
    await run(program, [...common, ...args, '--', ...command.map(literal)])
  } catch (error) {
    const stderr: unknown = isObject(error) ? error['stderr'] : undefined
    const why = typeof stderr === 'string' && stderr.trim() !== '' ? stderr.trim() : messageOf(error)
    throw new FleetError('unavailable', `systemd did not start the server: ${why}`, { cause: error })
  }
}

/** The main process of the run's service; undefined if the service has ended or systemd does not say. */
export async function mainProcess(mark: string, option: string): Promise<number | undefined> {
  const program = helperProgram('systemctl', option)
  try {
    const { stdout } = await run(program, ['show', '--property=MainPID', '--value', serviceOf(mark)])
    const pid = Number(stdout)
    return pid > 1 ? pid : undefined
  } catch {
    // The supervisor also writes it to a file.
    return undefined
  }
}

function run(program: string, args: readonly string[]): Promise<{ readonly stdout: string }> {
  return promisify(execFile)(...ownDescriptors(program, args), { env, timeout: timeoutMs })
}
