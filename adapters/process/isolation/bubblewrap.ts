/**
 * The command line of bubblewrap, which gives a game its own view of the files and its own process ids. Pure.
 *
 * - The network is that of the machine, because players reach the game on the machine's ports.
 * - Without `--die-with-parent`, because games outlive the host and its supervisors.
 * - The game's first process is an init script and not the game: the kernel drops signals to process id 1 without a handler,
 *   and ends all other processes when it exits. After SIGTERM, the script therefore waits for the processes that the game has
 *   left behind, which have the rest of the grace period as they would without a sandbox.
 */
import { dirname } from 'node:path'

export interface SandboxInput {
  readonly bwrap: string
  /** The backend's directory: hidden, except for the paths below. */
  readonly directory: string
  /** Folders of the instance that the game may write to. */
  readonly writable: readonly string[]
  /** The folder of the instance that the game sees as `/tmp` and `/var/tmp`. Default: memory. */
  readonly temporary?: string
  /** Other paths that the game may read: the host's paths, with the same names in the sandbox. */
  readonly readOnly: readonly string[]
  /** Paths of the instance that the game may read. */
  readonly ownReadOnly: readonly string[]
  readonly workingDir: string
}

/** What every game may read, if the machine has it. */
export const systemPaths: readonly string[] = Object.freeze([
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

/** The sandbox has its own of these, and `/etc` only in part, so a working directory in them adds nothing to it. */
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

/** Until it becomes the game, the init script's child may only tell, in the file behind descriptor 3, that it is there. */
const init = `trap _gamekeeper_sigterm=1 TERM
/bin/sh -c 'echo $$ >&3; exec 3>&-; exec "$@"' sh "$@"
_gamekeeper_exit=$?
[ -z "$_gamekeeper_sigterm" ] || while kill -s 0 -- -1 2>/dev/null; do sleep 0.1 || sleep 1 || break; done
exit $_gamekeeper_exit`

/** The script that becomes the game's parent in the sandbox. Runs as the game's user. */
export const initScript: readonly string[] = ['/bin/sh', '-c', init, 'sh']

export function sandboxArguments(input: SandboxInput): readonly string[] {
  const { bwrap, directory, writable, temporary, readOnly, ownReadOnly, workingDir } = input
  return [
    bwrap,
    ...['--unshare-pid', '--unshare-ipc', '--unshare-uts', '--unshare-cgroup-try', '--as-pid-1'],
    ...systemPaths.flatMap((path) => [...parents(path), '--ro-bind-try', path, path]),
    ...['--proc', '/proc', '--dev', '/dev', '--perms', '1777', '--tmpfs', '/dev/shm', '--dir', '/run'],
    ...['/tmp', '/var/tmp'].flatMap((path) => [
      ...parents(path),
      ...(temporary === undefined ? ['--perms', '1777', '--tmpfs', path] : ['--bind', temporary, path]),
    ]),
    ...readOnly.flatMap((path) => [...parents(path), '--ro-bind', path, path]),
    // After the paths above, which may contain the directory.
    ...[...parents(directory), '--perms', '0755', '--tmpfs', directory],
    ...writable.flatMap((path) => [...parents(path), '--bind', path, path]),
    ...ownReadOnly.flatMap((path) => [...parents(path), '--ro-bind', path, path]),
    ...['--remount-ro', directory, '--remount-ro', '/', '--chdir', workingDir, '--'],
  ]
}

/** Creates the folders above a path. Without this, they are closed to other users than this host's. */
function parents(path: string): readonly string[] {
  const folders: string[] = []
  for (let at = dirname(path); at !== dirname(at); at = dirname(at)) folders.unshift('--perms', '0755', '--dir', at)
  return folders
}
