/** Asks this machine's systemd to start services. Runs `systemd-run` and `systemctl`. */
import { execFile, spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { promisify } from 'node:util'
import { FleetError, messageOf } from '../../../src/contracts/errors.js'
import { ownDescriptors } from '../../../src/platform/own-descriptors.js'
import { isObject } from '../../../src/rules/validation/problem.js'
import { cannot, helperProgram, systemPath } from './programs.js'
import { isRoot } from './users.js'

/** The cgroup above those of all game servers, in which an operator may limit them together. */
export const slice = 'gamekeeper.slice'

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

// The transient service of systemd in which a game and its supervisor run: its name and its properties. Pure.
//
// - The supervisor keeps root and a few capabilities, with which it changes the user of the game. The service has no `User=`: a game could
//   end a supervisor of its own user, or fake its exit.
// - Properties are public: every user may read them with `systemctl show`. The only values of a template in them are paths.
// - A path of a template must not become another path, or another property: see `escaped` and `unsafePath`.

/** What a game sees of the machine's files, beside the system's. */
export interface GameView {
  /** Folders of the instance that the game may write to. */
  readonly writable: readonly string[]
  /** The folder of the instance that the game sees as `/tmp` and `/var/tmp`. Default: memory. */
  readonly temporary?: string
  /** Other paths that the game may read: the host's paths, with the same names in the service. */
  readonly readOnly: readonly string[]
  /** Paths of the instance that the game may read. */
  readonly ownReadOnly: readonly string[]
  readonly workingDir: string
}

/** What every game may read, if the machine has it. */
const systemPaths: readonly string[] = Object.freeze([
  '/usr',
  '/bin',
  '/sbin',
  '/lib',
  '/lib32',
  '/lib64',
  '/libx32',
  '/sys/devices/system/cpu',
  ...[
    'alternatives',
    'ca-certificates',
    'crypto-policies',
    'fonts',
    'group',
    'host.conf',
    'hosts',
    'ld.so.cache',
    'ld.so.conf',
    'ld.so.conf.d',
    'localtime',
    'nsswitch.conf',
    'passwd',
    'pki',
    'protocols',
    'resolv.conf',
    'services',
    'ssl',
    'timezone',
  ].map((name) => `/etc/${name}`),
])

/** A service has its own of these, and `/etc` only in part, so a working directory in them adds nothing to it. */
const ownPlaces: readonly string[] = ['/', '/etc', '/run', '/tmp', '/var', '/var/tmp']
const kernelPlaces: readonly string[] = ['/proc', '/sys', '/dev']

/** The paths that a game needs beside the system's: its working directory, and a program outside of it. */
export function installPaths(workingDir: string | undefined, programs: readonly string[]): readonly string[] {
  const paths = workingDir === undefined || isOfSystem(workingDir) ? [] : [workingDir]
  for (const program of programs) {
    if (!isOfSystem(program) && !paths.some((path) => isWithin(program, path))) paths.push(program)
  }
  return paths
}

export function isWithin(path: string, folder: string): boolean {
  return path === folder || path.startsWith(folder.endsWith('/') ? folder : `${folder}/`)
}

function isOfSystem(path: string): boolean {
  return ownPlaces.includes(path) || [...systemPaths, ...kernelPlaces].some((one) => isWithin(path, one))
}

interface UnitInput extends Omit<GameView, 'workingDir'> {
  /** The backend's directory: hidden, except for the paths above. */
  readonly directory: string
  readonly memoryBytes: number | undefined
  /** Without a controller for memory: of each process. */
  readonly dataBytes: number | undefined
  readonly tasks: number
  readonly openFiles: number | undefined
}

export interface UnitOfRun {
  readonly mark: string
  /** Shown to operators. */
  readonly server: string
  readonly runDirectory: string
  readonly logPath: string
  /** See `serviceCgroups`. */
  readonly cgroups: readonly string[]
  /** How long the game has if the service is stopped, for example with the machine. */
  readonly graceSeconds: number
}

/** The name of a run's service. */
export function serviceOf(mark: string): string {
  return `gamekeeper-${mark}.service`
}

/** The arguments of `systemd-run` that restrict what the service sees and takes. */
export function restrictions(input: UnitInput): readonly string[] {
  const { directory, writable, temporary, readOnly, ownReadOnly, memoryBytes, dataBytes, tasks, openFiles } = input
  const quotedTwice = escaped(directory).replaceAll(special, (char) => `\\${char}`)
  const hides = [...systemPaths, ...readOnly].some((path) => isWithin(directory, path))
  return properties([
    'TemporaryFileSystem=/:ro,mode=0755',
    'TemporaryFileSystem=/run:ro,mode=0755',
    'TemporaryFileSystem=/sys/fs/cgroup:ro,mode=0755',
    'TemporaryFileSystem=/dev/shm:mode=1777',
    'MountAPIVFS=yes',
    'ReadOnlyPaths=/sys',
    ...systemPaths.filter((path) => !isWithin(path, '/sys')).map((path) => `BindReadOnlyPaths=-${path}`),
    ...readOnly.map((path) => `BindReadOnlyPaths=${escaped(path)}`),
    // This property is split twice.
    ...(hides ? [`TemporaryFileSystem=${quotedTwice}:ro,mode=0755`] : []),
    ...writable.map((path) => `BindPaths=${escaped(path)}`),
    ...ownReadOnly.map((path) => `BindReadOnlyPaths=${escaped(path)}`),
    ...['/tmp', '/var/tmp'].map((path) =>
      temporary === undefined ? `TemporaryFileSystem=${path}:mode=1777` : `BindPaths=${escaped(temporary)}:${path}`,
    ),
    'PrivateDevices=yes',
    'PrivateIPC=yes',
    'ProtectProc=invisible',
    'NoNewPrivileges=yes',
    'RestrictSUIDSGID=yes',
    'CapabilityBoundingSet=CAP_SETUID CAP_SETGID CAP_SETPCAP CAP_KILL CAP_DAC_OVERRIDE',
    `TasksMax=${tasks}`,
    ...(memoryBytes === undefined ? [] : [`MemoryMax=${memoryBytes}`, 'MemorySwapMax=0']),
    ...(dataBytes === undefined ? [] : [`LimitDATA=${dataBytes}`]),
    ...(openFiles === undefined ? [] : [`LimitNOFILE=${openFiles}`]),
  ])
}

/** The other arguments of `systemd-run`, for the service of a run. Returns once the supervisor's shell has been started. */
export function runArguments(run: UnitOfRun): readonly string[] {
  const { mark, server, runDirectory, logPath, cgroups, graceSeconds } = run
  return [
    `--unit=${serviceOf(mark)}`,
    `--description=game server ${server}`,
    ...properties([
      'Type=exec',
      // With cgroups of version 2: a game without one of its processes is broken in ways that its exit does not tell.
      'OOMPolicy=stop',
      // In systemd, 0 is no limit.
      `TimeoutStopSec=${Math.max(1, graceSeconds)}`,
      `StandardOutput=append:${logPath}`,
      `StandardError=append:${logPath}`,
      `BindPaths=${escaped(runDirectory)}`,
      ...cgroups.map((path) => `BindReadOnlyPaths=-${escaped(path)}`),
    ]),
  ]
}

/** Why a service cannot have one of these paths; undefined if it can. systemd would write a line break to the service's file as it is. */
export function unsafePath(paths: readonly string[]): string | undefined {
  // eslint-disable-next-line no-control-regex -- the pattern must match control characters
  const unsafe = paths.find((path) => /[\u0000-\u001f\u007f]/.test(path))
  return unsafe && `isolation 'systemd' accepts no control characters in the path ${JSON.stringify(unsafe)}`
}

/** An argument of a service's command, in which systemd would replace variables. */
function literal(argument: string): string {
  return argument.replaceAll('$', () => '$$')
}

const special = /[\\: "']/g

/** A path in a property that consists of paths. */
function escaped(path: string): string {
  return resolve(path).replaceAll(special, (char) => `\\${char}`)
}

function properties(all: readonly string[]): readonly string[] {
  return all.map((one) => `--property=${one}`)
}
