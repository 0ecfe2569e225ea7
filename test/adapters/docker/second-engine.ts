/**
 * A second Docker engine for one test, whose daemon can be killed: `dockerd` with its own data, socket and bridge, as root on
 * Linux. It publishes ports through its proxies only and does not touch the machine's packet filter.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, existsSync, openSync } from 'node:fs'
import { access, mkdir, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import Docker from 'dockerode'
import { vi } from 'vitest'
import { docker as first } from './engine.js'

const run = promisify(execFile)

export interface SecondEngine {
  readonly docker: Docker
  readonly socketPath: string
  /** Its data directory. */
  readonly dataRoot: string
  /** Address of its bridge on this machine. */
  readonly gateway: string
  start(options: { readonly liveRestore: boolean }): Promise<void>
  /** Stops the daemon and waits for it. After SIGKILL containers keep running. */
  stop(signal: 'SIGKILL' | 'SIGTERM'): Promise<void>
  /** Stops the engine and removes everything it created. */
  remove(): Promise<void>
}

let count = 0

export interface SecondEngineOptions {
  /** Image to load into it. */
  readonly image: string
  /** Puts its data on a separate disk of this size. */
  readonly diskMb?: number
}

export async function secondEngine({ image, diskMb }: SecondEngineOptions): Promise<SecondEngine> {
  const directory = await mkdtemp(join(tmpdir(), 'gamekeeper-dockerd-'))
  let number = (process.pid + count++) % 200
  // A test run that was killed may have left a bridge behind.
  while (existsSync(`/sys/class/net/gk-test${number}`)) number = (number + 1) % 200
  const bridge = `gk-test${number}`
  const gateway = `172.31.${number}.1`
  const socketPath = join(directory, 'docker.sock')
  const docker = new Docker({ socketPath })
  let daemon: ChildProcess | undefined

  const dataRoot = join(directory, 'data')
  await mkdir(dataRoot)
  if (diskMb !== undefined) await run('mount', ['-t', 'tmpfs', '-o', `size=${diskMb}m`, 'tmpfs', dataRoot])
  const begin = (program: string, args: readonly string[]) => {
    const log = openSync(join(directory, `${program}.log`), 'a')
    const child = spawn(program, args, { stdio: ['ignore', log, log], detached: true })
    closeSync(log)
    // Otherwise a failure to start would end the test's process.
    child.on('error', () => {})
    return child
  }
  const up = async (program: string, check: () => Promise<unknown>) => {
    try {
      await vi.waitFor(check, { timeout: 60_000, interval: 100 })
    } catch (error) {
      const lastLines = (await readFile(join(directory, `${program}.log`), 'utf8')).split('\n').slice(-5)
      throw new Error(`${program} does not come up: ${lastLines.join('\n')}`, { cause: error })
    }
  }
  // Separate, as in distributions, so that it and the containers outlive the daemon.
  const containerdSocket = join(directory, 'containerd.sock')
  const state = ['--root', join(dataRoot, 'containerd'), '--state', join(directory, 'containerd')]
  const containerd = begin('containerd', [...state, '--address', containerdSocket, '--config', '/dev/null'])
  await up('containerd', () => access(containerdSocket))

  await run('ip', ['link', 'add', bridge, 'type', 'bridge'])
  await run('ip', ['addr', 'add', `${gateway}/24`, 'dev', bridge])
  await run('ip', ['link', 'set', bridge, 'up'])

  /** Kills orphaned shims of containers that the daemon was starting when it was killed. */
  const killRest = async () => {
    const { stdout } = await run('ps', ['-eo', 'pid=,args='])
    for (const line of stdout.split('\n').filter((one) => one.includes(`-address ${containerdSocket}`))) {
      process.kill(Number.parseInt(line, 10), 'SIGKILL')
    }
  }

  const engine: SecondEngine = {
    docker,
    socketPath,
    dataRoot,
    gateway,

    async start({ liveRestore }) {
      const own = ['--data-root', dataRoot, '--exec-root', join(directory, 'exec'), '--containerd', containerdSocket]
      const place = ['--pidfile', join(directory, 'pid'), '--host', `unix://${socketPath}`, '--bridge', bridge]
      const harmless = ['--iptables=false', '--ip6tables=false', '--ip-forward=false', '--ip-masq=false']
      daemon = begin('dockerd', [
        ...own,
        ...place,
        ...harmless,
        `--live-restore=${liveRestore}`,
        '--shutdown-timeout=2',
      ])
      await up('dockerd', () => docker.listContainers())
    },

    async stop(signal) {
      const ending = daemon
      daemon = undefined
      if (ending) await end(ending, signal)
    },

    async remove() {
      if (!daemon) await engine.start({ liveRestore: false })
      for (const { Id } of await docker.listContainers({ all: true })) {
        // Some containers are already being removed.
        await docker
          .getContainer(Id)
          .remove({ force: true })
          .catch(() => {})
      }
      await engine.stop('SIGTERM')
      await end(containerd, 'SIGTERM')
      await killRest()
      await run('ip', ['link', 'del', bridge])
      // A killed daemon may leave these mounted.
      const mounts = (await readFile('/proc/mounts', 'utf8')).split('\n').map((line) => line.split(' ')[1] ?? '')
      for (const mount of mounts.filter((path) => path.startsWith(directory)).toReversed())
        await run('umount', ['-l', mount])
      await rm(directory, { recursive: true, force: true, maxRetries: 5 })
    },
  }
  try {
    await engine.start({ liveRestore: true })
    await docker.loadImage(await first.getImage(image).get(), {}).then(drain)
  } catch (error) {
    await engine.remove().catch(() => {})
    throw error
  }
  return engine
}

async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exited = once(child, 'exit')
  child.kill(signal)
  await exited
}

async function drain(stream: NodeJS.ReadableStream): Promise<void> {
  stream.resume()
  await once(stream, 'end')
}
