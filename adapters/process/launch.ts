/** Turns an instance's spec into a running process: environment, configuration file, command, supervisor. */
import { closeSync, openSync } from 'node:fs'
import type { InstanceSpec } from '../../src/contracts/backend.js'
import type { Clock } from '../../src/contracts/clock.js'
import { FleetError, messageOf } from '../../src/contracts/errors.js'
import { identityOf, type ProcessIdentity } from '../../src/platform/process-identity.js'
import { portName, sdkConfigFile, type SdkConfigInput } from '../../src/rules/game/sdk-config.js'
import { gameContainerOf } from '../../src/rules/validation/template.js'
import { locateCommand } from './command.js'
import { gameEnvironment } from './environment.js'
import { codeOf, type InstanceFiles } from './files.js'
import { GameProcess } from './game-process.js'
import type { Exit, InstanceRecord } from './record.js'
import { startSupervisor } from './supervisor.js'

export interface LaunchInput {
  readonly spec: InstanceSpec
  readonly record: InstanceRecord
  readonly nonce: string
  readonly files: InstanceFiles
  readonly inheritEnv: readonly string[]
  readonly clock: Clock
  readonly onExit: () => void
}

/** Ready to start, or why it never will. */
export type Prepared =
  | { readonly ok: true; start(): Promise<GameProcess | { readonly refused: Exit }> }
  | { readonly ok: false; readonly refused: Exit }

/** Writes the game's configuration and finds its command. Nothing runs before `start` is called. */
export async function prepareLaunch(input: LaunchInput): Promise<Prepared> {
  const { spec, record, nonce, files, clock } = input
  const { ref } = record
  const container = gameContainerOf(spec.template)
  const sdk: SdkConfigInput = {
    ...spec.sdk,
    buildID: spec.build.buildID,
    server: ref,
    node: record.node,
    publicAddress: record.address,
    // On one machine there is nothing between the players and the game: both numbers are the public one.
    ports: record.ports.map((port) => ({
      name: portName(container, port.container),
      listening: port.public,
      public: port.public,
    })),
    folders: files.foldersOf(ref),
  }
  const environment = gameEnvironment({
    host: process.env,
    inheritEnv: input.inheritEnv,
    container,
    sdk,
    sdkConfigPath: files.sdkConfigOf(ref),
    ports: record.ports,
  })
  const [command = '', ...args] = [...container.command, ...container.args].map((part) => environment.expand(part))
  const workingDir = container.workingDir ?? process.cwd()
  const located = locateCommand(command, workingDir, environment.env['PATH'])
  if (!located.ok) return { ok: false, refused: { code: located.exitCode, reason: located.reason } }
  await files.writeSdkConfig(ref, sdkConfigFile(sdk))

  const runDirectory = files.runDirectory(ref, nonce)
  const logPath = files.logOf(ref)
  const start = async () => {
    const log = openSync(logPath, 'a', 0o600)
    try {
      const program = located.path
      const child = await startSupervisor({
        runDirectory,
        mark: nonce,
        program,
        args,
        env: environment.env,
        workingDir,
        log,
      })
      child.once('exit', input.onExit)
      return new GameProcess({
        runDirectory,
        mark: nonce,
        logPath,
        group: child.pid,
        child,
        clock,
        ...leaderOf(child.pid),
      })
    } catch (error) {
      if (scarce.has(codeOf(error))) {
        throw new FleetError('unavailable', `no process can be started now: ${messageOf(error)}`, { cause: error })
      }
      return { refused: { code: 126, reason: `cannot run ${command}: ${messageOf(error)}` } }
    } finally {
      // The game has its own copy.
      closeSync(log)
    }
  }
  return { ok: true, start }
}

/**
 * Who the supervisor is; nobody when it has ended already, or when that cannot be told now. It runs all the same, and
 * must be kept: its mark tells it then.
 */
function leaderOf(pid: number): { readonly leader?: ProcessIdentity } {
  try {
    const leader = identityOf(pid)
    return leader ? { leader } : {}
  } catch {
    // As said above: no reason to lose a process that was started.
    return {}
  }
}

/** The machine is out of something and may have it again; any other failure is the command line's or its directory's. */
const scarce: ReadonlySet<string> = new Set(['EAGAIN', 'ENOMEM', 'EMFILE', 'ENFILE'])
