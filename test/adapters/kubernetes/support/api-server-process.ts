/**
 * The API server process on this machine: found by its port, killed, and restarted with the same arguments.
 */
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { open, readdir, readFile, readlink, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { basename, dirname, join } from 'node:path'
import { defaultKubeConfig } from '../../../../adapters/kubernetes/client/kube-config.js'
import { until } from '../../../e2e/until.js'
import { clusterApi } from './cluster.js'

export interface ApiServerProcess {
  /** Sends SIGKILL, as if its machine failed. */
  kill(): void
  /** True when nothing listens on its port. */
  isGone(): Promise<boolean>
  /** Starts the API server unless it is running. Resolves once it responds. */
  restart(): Promise<void>
}

/** Undefined when it is not a process of this machine, or not accessible. */
export async function findApiServer(): Promise<ApiServerProcess | undefined> {
  if (process.env['KUBECONFIG'] === undefined) return undefined
  const { hostname, port } = new URL(defaultKubeConfig().getCurrentCluster()?.server ?? 'https://none')
  const pid = /^(127\.|localhost$)/.test(hostname) ? await listenerOf(Number(port || 443)) : undefined
  if (pid === undefined) return undefined
  try {
    const program = await readlink(`/proc/${pid}/exe`)
    if (basename(program) !== 'kube-apiserver') return undefined
    return await asItRuns(pid, program, { host: hostname, port: Number(port || 443) })
  } catch {
    return undefined // Another user's.
  }
}

async function asItRuns(
  first: number,
  program: string,
  place: { readonly host: string; readonly port: number },
): Promise<ApiServerProcess> {
  const args = (await zeroTerminated(`/proc/${first}/cmdline`)).slice(1)
  const env = Object.fromEntries(
    (await zeroTerminated(`/proc/${first}/environ`)).map((line) => [
      line.slice(0, line.indexOf('=')),
      line.slice(line.indexOf('=') + 1),
    ]),
  )
  // Its working directory may have been removed since.
  const folder = await readlink(`/proc/${first}/cwd`)
  const cwd = existsSync(folder) ? folder : '/'
  const log = await readlink(`/proc/${first}/fd/1`)
  let pid = first
  let runs = true
  return {
    kill() {
      process.kill(pid, 'SIGKILL')
      runs = false
    },
    isGone: () => refuses(place),
    async restart() {
      if (runs) return
      await until('the killed API server has freed its port', () => refuses(place))
      const output = log.startsWith('/dev/') || !log.startsWith('/') ? undefined : await open(log, 'a')
      const stdio = output?.fd ?? 'ignore'
      const child = spawn(program, args, { cwd, env, detached: true, stdio: ['ignore', stdio, stdio] })
      child.unref()
      await output?.close()
      if (child.pid === undefined) throw new Error(`${program} cannot be started again`)
      await updatePidFiles(log, pid, child.pid)
      pid = child.pid
      runs = true
      const api = clusterApi()
      try {
        const question = { what: 'check that it is ready', method: 'GET', path: '/livez/ping' } as const
        await until('the API server answers again', async () => {
          await api.request(question).catch((error: unknown) => {
            // The response is `ok`, which is not JSON.
            if (!String(error).includes('unexpected response')) throw error
          })
          return true
        })
      } finally {
        api.close()
      }
    },
  }
}

/** Updates pid files near its log, which the tool that started it may have written. */
async function updatePidFiles(log: string, before: number, now: number): Promise<void> {
  if (!log.startsWith('/')) return
  const folder = dirname(dirname(log))
  const entries = await readdir(folder, { withFileTypes: true })
  for (const below of ['.', ...entries.filter((entry) => entry.isDirectory()).map(({ name }) => name)]) {
    for (const name of await readdir(join(folder, below))) {
      const note = join(folder, below, name)
      if (name.endsWith('.pid') && (await readFile(note, 'utf8')).trim() === String(before))
        await writeFile(note, `${now}\n`)
    }
  }
}

function refuses(place: { readonly host: string; readonly port: number }): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(place)
    socket.once('connect', () => {
      socket.destroy()
      resolve(false)
    })
    socket.once('error', () => resolve(true))
  })
}

async function listenerOf(port: number): Promise<number | undefined> {
  const sockets = await listeningSockets(port)
  for (const pid of (await readdir('/proc')).filter((name) => /^\d+$/.test(name))) {
    try {
      for (const fd of await readdir(`/proc/${pid}/fd`)) {
        if (sockets.has(await readlink(`/proc/${pid}/fd/${fd}`))) return Number(pid)
      }
    } catch {
      // The process has ended, or belongs to another user.
    }
  }
  return undefined
}

async function listeningSockets(port: number): Promise<ReadonlySet<string>> {
  const found = new Set<string>()
  for (const table of ['/proc/net/tcp', '/proc/net/tcp6']) {
    for (const line of (await readFile(table, 'utf8').catch(() => '')).split('\n').slice(1)) {
      const [, local = '', , state, , , , , , inode] = line.trim().split(/\s+/)
      const isListening = state === '0A'
      if (isListening && Number.parseInt(local.split(':')[1] ?? '', 16) === port) found.add(`socket:[${inode}]`)
    }
  }
  return found
}

async function zeroTerminated(path: string): Promise<readonly string[]> {
  return (await readFile(path, 'utf8')).split('\0').slice(0, -1)
}
