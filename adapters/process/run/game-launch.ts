/**
 * Starts a process from an instance's spec: builds the environment, SDK configuration and command, and runs them under a
 * supervisor.
 */
import { closeSync, constants, fchownSync, realpathSync, statSync } from 'node:fs'
import type { InstanceSpec } from '../../../src/contracts/backend.js'
import type { Clock } from '../../../src/contracts/clock.js'
import { FleetError, messageOf } from '../../../src/contracts/errors.js'
import { codeOf, NotAFile, openRegularFile } from '../../../src/platform/files.js'
import { processIdentity, type ProcessIdentity } from '../../../src/platform/process-identity.js'
import {
  declaredEnvironment,
  portName,
  sdkConfigFile,
  type SdkConfigInput,
} from '../../../src/rules/game/sdk-config.js'
import type { PortPair } from '../../../src/rules/model/resources.js'
import { type GameContainer, gameContainerOf, graceSecondsOf } from '../../../src/rules/validation/pod-template.js'
import { dottedName } from '../../shared/backend-lifecycle.js'
import { platformOn } from '../../shared/option-reader.js'
import { quantityOf } from '../../../src/rules/model/quantity.js'
import type { InstanceFiles } from '../files/instance-files.js'
import type { Exit, InstanceRecord } from '../files/record.js'
import { makeStdin } from '../files/stdin.js'
import { createCgroup, serviceCgroups } from '../isolation/cgroups.js'
import type { GameIsolation } from '../isolation/game-isolation.js'
import { locateCommand } from '../isolation/programs.js'
import { type GameView, installPaths, isWithin, unsafePath } from '../isolation/systemd.js'
import type { GameUser } from '../isolation/users.js'
import type { ResolvedProcessOptions } from '../options.js'
import { encodeMark, type ProcessTable } from '../processes.js'
import { GameProcess } from './game-process.js'
import { type StartedService, startInService, startSupervisor, type SupervisorInput } from './supervisor.js'

interface LaunchInput {
  readonly spec: InstanceSpec
  readonly record: InstanceRecord
  readonly nonce: string
  /** Undefined if the game runs as the user of this host. */
  readonly user: GameUser | undefined
  readonly isolation: GameIsolation
  readonly files: InstanceFiles
  readonly options: Pick<ResolvedProcessOptions, 'development' | 'inheritEnv' | 'platform'>
  readonly processes: ProcessTable
  readonly clock: Clock
  readonly onExit: () => void
}

/** `rejected` means that the command can never run. */
type Prepared =
  | { readonly ok: true; start(): Promise<GameProcess | { readonly rejected: Exit }> }
  | { readonly ok: false; readonly rejected: Exit }

/** Writes the SDK configuration and locates the command. Starts no process until `start` is called. */
export async function prepareLaunch(input: LaunchInput): Promise<Prepared> {
  const { spec, record, files } = input
  const container = gameContainerOf(spec.template)
  const sdk = sdkOf(input, container)
  const { env, expand } = gameEnvironment({
    host: hostVariables(input),
    inheritEnv: input.options.inheritEnv,
    container,
    sdk,
    sdkConfigPath: files.sdkConfigOf(record.ref),
    ports: record.ports,
  })
  const [command = '', ...args] = [...container.command, ...container.args].map((part) => expand(part))
  const workingDir = container.workingDir ?? process.cwd()
  const located = locateCommand(command, workingDir, env['PATH'])
  if (!located.ok) return { ok: false, rejected: { code: located.exitCode, reason: located.reason } }
  const view = gameView({ files, record, workingDir: container.workingDir, program: located.path })
  const refused = whyNotVisible(view, files, input.isolation)
  if (refused !== undefined) return { ok: false, rejected: { code: 126, reason: refused } }
  await files.writeSdkConfig(record.ref, sdkConfigFile(sdk), input.user)
  const memoryBytes = memoryOf(container)
  const { stdin } = container
  const game = { command, program: located.path, args, env, workingDir, view, memoryBytes, stdin }
  return { ok: true, start: () => startGame(input, game) }
}

/** Such a game cannot use the home and temporary directories of this host's user, and may have another name. */
function hostVariables({ isolation, files, record }: LaunchInput): Readonly<Record<string, string | undefined>> {
  if (!isolation.ownsFolders) return process.env
  const { home, temporary } = files.ownFoldersOf(record.ref)
  return { ...process.env, HOME: home, TMPDIR: temporary, USER: undefined, LOGNAME: undefined }
}

function sdkOf({ spec, record, files, options }: LaunchInput, container: GameContainer): SdkConfigInput {
  return {
    ...spec.sdk,
    buildID: spec.build.buildID,
    server: record.ref,
    node: record.node,
    instanceNumber: record.instanceNumber,
    platform: platformOn(record.node, options.platform),
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

interface GameCommand extends Pick<SupervisorInput, 'program' | 'args' | 'env' | 'workingDir' | 'stdin'> {
  readonly view: GameView
  /** The template's limit. */
  readonly memoryBytes: number | undefined
  /** The command as written in the template, used in messages. */
  readonly command: string
}

async function startGame(input: LaunchInput, game: GameCommand): Promise<GameProcess | { readonly rejected: Exit }> {
  const { record, nonce, user, isolation, files, options, processes, clock, onExit } = input
  const { command, memoryBytes, program, args, env, workingDir, stdin } = game
  const runDirectory = files.runDirectory(record.ref, nonce)
  const logPath = files.logOf(record.ref)
  const run = { runDirectory, mark: nonce }
  const log = openLog(logPath)
  try {
    // The game may open its standard output again, for example as /dev/stdout.
    if (user) fchownSync(log, user.uid, user.gid)
    if (stdin) await makeStdin(files.stdinOf(record.ref, nonce), user)
    const helpers = isolation.helpers(user)
    const supervisor = {
      ...run,
      program,
      args,
      env,
      workingDir,
      stdin,
      helpers,
      guardsHelpers: isolation.ownsFolders,
      cgroups: createCgroup(nonce, isolation.cgroupLimits(memoryBytes)),
      endsWithHost: options.development !== undefined,
      recordMark: encodeMark(files.directoryOf(record.ref), record),
    }
    const common = { ...run, logPath, uid: record.uidOfGame, processes, clock, isNew: true }
    if (isolation.isService) {
      const started = await startGameService(input, game, supervisor)
      if (started) return new GameProcess({ ...common, ...started })
      return { rejected: { code: 126, reason: `cannot run ${command}; see ${logPath}` } }
    }
    const started = await startSupervisor({ ...supervisor, log })
    if (!started) {
      const reason = `its supervisor was killed, or could not write to ${runDirectory}; see ${logPath}`
      throw new FleetError('unavailable', `cannot start a process: ${reason}`)
    }
    started.onEnd(onExit)
    return new GameProcess({ ...common, group: started.pid, supervisor: started, ...leaderOf(started.pid) })
  } catch (error) {
    if (FleetError.is(error) && error.code === 'unavailable') throw error
    if (shortageCodes.has(codeOf(error))) {
      throw new FleetError('unavailable', `cannot start a process: ${messageOf(error)}`, { cause: error })
    }
    return { rejected: { code: 126, reason: `cannot run ${command}: ${messageOf(error)}` } }
  } finally {
    // The game has its own copy of the descriptor.
    closeSync(log)
  }
}

function startGameService(
  { spec, record, nonce, isolation, files }: LaunchInput,
  { view, memoryBytes }: GameCommand,
  supervisor: SupervisorInput,
): Promise<StartedService | undefined> {
  const properties = isolation.serviceArguments(view, memoryBytes, {
    mark: nonce,
    server: dottedName(record.ref),
    runDirectory: files.runDirectory(record.ref, nonce),
    logPath: files.logOf(record.ref),
    graceSeconds: graceSecondsOf(spec.template),
  })
  const own = { workingDir: view.workingDir, serviceCgroups: serviceCgroups(nonce) }
  return startInService({ ...supervisor, ...own }, properties, isolation.option)
}

function openLog(path: string): number {
  const { O_APPEND, O_CREAT, O_WRONLY } = constants
  try {
    return openRegularFile(path, O_APPEND | O_CREAT | O_WRONLY, 0o600)
  } catch (error) {
    // ENXIO is a pipe without a reader, EISDIR a directory.
    if (codeOf(error) !== 'ENXIO' && codeOf(error) !== 'EISDIR') throw error
    throw new NotAFile(path, statSync(path))
  }
}

/**
 * Returns nothing if the supervisor has already exited or cannot be identified now. The run is then identified by its mark.
 */
function leaderOf(pid: number): { readonly leader?: ProcessIdentity } {
  try {
    const leader = processIdentity(pid)
    return leader ? { leader } : {}
  } catch {
    // The process has been started and must not be lost because of this error.
    return {}
  }
}

/**
 * Errors caused by a temporary shortage of system resources. All other failures are caused by the command or its directory.
 */
const shortageCodes: ReadonlySet<string> = new Set(['EAGAIN', 'ENOMEM', 'EMFILE', 'ENFILE', 'ENOSPC', 'EDQUOT'])

interface GameViewInput {
  readonly files: InstanceFiles
  readonly record: InstanceRecord
  /** As in the template. Without it, the game starts in its home. */
  readonly workingDir: string | undefined
  /** Absolute path of the game's program. */
  readonly program: string
}

function gameView({ files, record: { ref }, workingDir, program }: GameViewInput): GameView {
  const { logs, certificates, sharedContent } = files.foldersOf(ref)
  const { home, temporary } = files.ownFoldersOf(ref)
  return {
    writable: [logs, certificates, sharedContent, home, temporary],
    temporary,
    ownReadOnly: [files.sdkConfigOf(ref)],
    readOnly: installPaths(workingDir, [program, realpathSync(program)]),
    workingDir: workingDir ?? home,
  }
}

/** Why the game cannot have this view; undefined if it can, or if it has none of its own. */
function whyNotVisible(view: GameView, { directory }: InstanceFiles, isolation: GameIsolation): string | undefined {
  if (!isolation.isService) return undefined
  const hidden = view.readOnly.find((path) => isWithin(path, directory))
  if (hidden !== undefined) {
    return `${hidden} is inside processBackend's directory ${directory}, which ${isolation.option} hides from games`
  }
  return unsafePath([...view.readOnly, ...view.writable])
}

// Builds the environment of a game's process, and expands `$(NAME)` in its command line.

/**
 * Host variables that games inherit: search path, home directory, locale, temporary directory. Other variables are not
 * inherited, because they may contain secrets.
 */
export const inheritedVariables: readonly string[] = Object.freeze([
  'PATH',
  'HOME',
  'USER',
  'LOGNAME',
  'SHELL',
  'LANG',
  'LANGUAGE',
  'LC_ALL',
  'LC_CTYPE',
  'LC_COLLATE',
  'LC_MESSAGES',
  'LC_MONETARY',
  'LC_NUMERIC',
  'LC_TIME',
  'TZ',
  'TMPDIR',
])

interface EnvironmentInput {
  readonly host: Readonly<Record<string, string | undefined>>
  /** Names of additional host variables to inherit. */
  readonly inheritEnv: readonly string[]
  readonly container: GameContainer
  readonly sdk: SdkConfigInput
  readonly sdkConfigPath: string
  readonly ports: readonly PortPair[]
}

interface GameEnvironment {
  readonly env: Readonly<Record<string, string>>
  /**
   * Expands `$(NAME)` as Kubernetes does, using the variables from the template, the SDK and the ports, but not the host's.
   */
  readonly expand: (text: string) => string
}

/** Declared variables (from the template, the SDK and the ports) override inherited ones. */
export function gameEnvironment(input: EnvironmentInput): GameEnvironment {
  const { declared, expand } = declaredEnvironment({
    ...input,
    listening: input.ports.map((port) => ({ container: port.container, number: port.public })),
  })
  const inherited = [...inheritedVariables, ...input.inheritEnv].flatMap((name) => {
    const value = Object.hasOwn(input.host, name) ? input.host[name] : undefined
    return value === undefined ? [] : [[name, value] as const]
  })
  // An assignment to a variable named `__proto__` would change the object instead.
  return { env: Object.fromEntries([...inherited, ...declared]), expand }
}

/** Less than a program needs to start. */
const minBytes = 2 ** 20

/** In bytes. Undefined if the template sets no limit, or one that `checkMemoryLimit` rejects. */
function memoryOf({ limits }: Pick<GameContainer, 'limits'>): number | undefined {
  const bytes = Math.floor(quantityOf(limits['memory'] ?? ''))
  return bytes >= minBytes && bytes <= Number.MAX_SAFE_INTEGER ? bytes : undefined
}

/** Throws `invalid`, naming the field. */
export function checkMemoryLimit(container: Pick<GameContainer, 'limits'>): void {
  const { memory } = container.limits
  if (memory === undefined || memoryOf(container) !== undefined) return
  const field = 'spec.template.spec.containers[0].resources.limits.memory'
  throw new FleetError(
    'invalid',
    `${field} must be a quantity of bytes of at least 1Mi, but is ${JSON.stringify(memory)}`,
  )
}
