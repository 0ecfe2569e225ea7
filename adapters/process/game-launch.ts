/**
 * Starts a process from an instance's spec: builds the environment, SDK configuration and command, and runs them under a
 * supervisor.
 */
import { closeSync, openSync } from 'node:fs'
import type { InstanceSpec } from '../../src/contracts/backend.js'
import type { Clock } from '../../src/contracts/clock.js'
import { FleetError, messageOf } from '../../src/contracts/errors.js'
import { codeOf } from '../../src/platform/error-code.js'
import { identityOf, type ProcessIdentity } from '../../src/platform/process-identity.js'
import { portName, sdkConfigFile, type SdkConfigInput } from '../../src/rules/game/sdk-config.js'
import { type GameContainer, gameContainerOf } from '../../src/rules/validation/template.js'
import { locateCommand } from './command.js'
import { gameEnvironment } from './environment.js'
import type { InstanceFiles } from './files.js'
import { GameProcess } from './game-process.js'
import type { Exit, InstanceRecord } from './record.js'
import { type StartInput, startSupervisor } from './supervisor.js'

export interface LaunchInput {
  readonly spec: InstanceSpec
  readonly record: InstanceRecord
  readonly nonce: string
  readonly files: InstanceFiles
  readonly inheritEnv: readonly string[]
  readonly clock: Clock
  readonly onExit: () => void
}

/** `rejected` means that the command can never run. */
export type Prepared =
  | { readonly ok: true; start(): Promise<GameProcess | { readonly rejected: Exit }> }
  | { readonly ok: false; readonly rejected: Exit }

/** Writes the SDK configuration and locates the command. Starts no process until `start` is called. */
export async function prepareLaunch(input: LaunchInput): Promise<Prepared> {
  const { spec, record, files } = input
  const container = gameContainerOf(spec.template)
  const sdk = sdkOf(input, container)
  const { env, expand } = gameEnvironment({
    host: process.env,
    inheritEnv: input.inheritEnv,
    container,
    sdk,
    sdkConfigPath: files.sdkConfigOf(record.ref),
    ports: record.ports,
  })
  const [command = '', ...args] = [...container.command, ...container.args].map((part) => expand(part))
  const workingDir = container.workingDir ?? process.cwd()
  const located = locateCommand(command, workingDir, env['PATH'])
  if (!located.ok) return { ok: false, rejected: { code: located.exitCode, reason: located.reason } }
  await files.writeSdkConfig(record.ref, sdkConfigFile(sdk))
  return { ok: true, start: () => startGame(input, { command, program: located.path, args, env, workingDir }) }
}

function sdkOf({ spec, record, files }: LaunchInput, container: GameContainer): SdkConfigInput {
  return {
    ...spec.sdk,
    buildID: spec.build.buildID,
    server: record.ref,
    node: record.node,
    publicAddress: record.address,
    // Ports are not mapped on a single machine: the game listens on the public port itself.
    ports: record.ports.map((port) => ({
      name: portName(container, port.container),
      listening: port.public,
      public: port.public,
    })),
    folders: files.foldersOf(record.ref),
  }
}

interface GameCommand extends Pick<StartInput, 'program' | 'args' | 'env' | 'workingDir'> {
  /** The command as written in the template, used in messages. */
  readonly command: string
}

async function startGame(
  { record, nonce, files, clock, onExit }: LaunchInput,
  { command, ...start }: GameCommand,
): Promise<GameProcess | { readonly rejected: Exit }> {
  const runDirectory = files.runDirectory(record.ref, nonce)
  const logPath = files.logOf(record.ref)
  const run = { runDirectory, mark: nonce }
  const log = openSync(logPath, 'a', 0o600)
  try {
    const child = await startSupervisor({ ...run, ...start, log })
    child.once('exit', onExit)
    return new GameProcess({ ...run, logPath, group: child.pid, child, clock, ...leaderOf(child.pid) })
  } catch (error) {
    if (shortageCodes.has(codeOf(error))) {
      throw new FleetError('unavailable', `cannot start a process: ${messageOf(error)}`, { cause: error })
    }
    return { rejected: { code: 126, reason: `cannot run ${command}: ${messageOf(error)}` } }
  } finally {
    // The game has its own copy of the descriptor.
    closeSync(log)
  }
}

/**
 * Returns nothing if the supervisor has already exited or cannot be identified now. The run is then identified by its mark.
 */
function leaderOf(pid: number): { readonly leader?: ProcessIdentity } {
  try {
    const leader = identityOf(pid)
    return leader ? { leader } : {}
  } catch {
    // The process has been started and must not be lost because of this error.
    return {}
  }
}

/**
 * Errors caused by a temporary shortage of system resources. All other failures are caused by the command or its directory.
 */
const shortageCodes: ReadonlySet<string> = new Set(['EAGAIN', 'ENOMEM', 'EMFILE', 'ENFILE'])
