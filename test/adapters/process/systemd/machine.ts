/** A machine with systemd as process 1, in a container with files and cgroups of its own. */
import { execFile } from 'node:child_process'
import { mkdtemp, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { root } from '../../../package/sources.js'
import { baseImage } from '../../docker/engine.js'

const image = 'gamekeeper-systemd-test'
const dockerfile = `FROM ${baseImage}
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends systemd dbus procps
`

/** Docker mounts the hierarchies read-only. Their own flags are those of the machine, so only the mounts change. */
const boot = `for name in systemd memory pids; do
  [ ! -d /sys/fs/cgroup/$name ] || mount -o remount,bind,rw /sys/fs/cgroup/$name || exit 1
done
[ ! -e /sys/fs/cgroup/cgroup.controllers ] || mount -o remount,bind,rw /sys/fs/cgroup || exit 1
exec /lib/systemd/systemd --unit=basic.target`

export interface Result {
  readonly code: number
  readonly output: string
}

export interface Machine {
  /** Runs a command as root, in the working directory of the project. Never rejects because of its exit code. */
  run(command: readonly string[]): Promise<Result>
  remove(): Promise<void>
}

/** Resolves once systemd is running. The first call on an engine builds the image, which takes some ten seconds. */
export async function startMachine(name: string): Promise<Machine> {
  await buildImage()
  const modules = await realpath(join(root, 'node_modules'))
  const folders = [...new Set([root.replace(/\/$/, ''), modules])]
  await docker([
    ...['run', '--detach', '--name', name, '--cap-add', 'SYS_ADMIN', '--cgroupns', 'private'],
    ...['--security-opt', 'seccomp=unconfined', '--security-opt', 'apparmor=unconfined', '--env', 'container=docker'],
    ...['/run', '/run/lock', '/tmp:exec'].flatMap((path) => ['--tmpfs', path]),
    ...folders.flatMap((folder) => ['--volume', `${folder}:${folder}:ro`]),
    ...[image, 'sh', '-c', boot],
  ])
  const machine: Machine = {
    run: (command) => attempt(['exec', '--workdir', root, name, ...command]),
    remove: async () => void (await docker(['rm', '--force', '--volumes', name])),
  }
  try {
    const isUp = 'until [ -S /run/systemd/private ]; do sleep 0.1; done; systemctl is-system-running --wait'
    const { code, output } = await machine.run(['timeout', '60', 'sh', '-c', isUp])
    if (code !== 0) throw new Error(`systemd does not come up: ${output}`)
    return machine
  } catch (error) {
    await machine.remove()
    throw error
  }
}

async function buildImage(): Promise<void> {
  const context = await mkdtemp(join(tmpdir(), 'gamekeeper-systemd-'))
  try {
    await writeFile(join(context, 'Dockerfile'), dockerfile)
    await docker(['build', '--quiet', '--tag', image, context])
  } finally {
    await rm(context, { recursive: true })
  }
}

async function docker(args: readonly string[]): Promise<string> {
  const { stdout } = await promisify(execFile)('docker', args, { maxBuffer: 64 * 1024 * 1024 })
  return stdout
}

function attempt(args: readonly string[]): Promise<Result> {
  return new Promise((resolve) => {
    execFile('docker', args, { maxBuffer: 64 * 1024 * 1024 }, (error, stdout, stderr) => {
      const code = error ? (typeof error.code === 'number' ? error.code : 1) : 0
      resolve({ code, output: `${stdout}${stderr}` })
    })
  })
}
