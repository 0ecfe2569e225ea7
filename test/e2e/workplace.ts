/**
 * A temporary data directory for a test, and its running game servers. Game servers that are still running when the test ends
 * are killed.
 */
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { type ProcessSnapshot, ProcessTable, signalProcess } from '../../adapters/process/processes.js'
import { backend, containersOf, enterCluster, imageBuilt, removeContainersOf } from './backend.js'
import { until } from './until.js'

export interface RunningServer {
  readonly name: string
  /** The public port; 0 if the server exposes none. */
  readonly port: number
  /** The supervisor or the init process of the container, followed by the game. */
  readonly pids: readonly number[]
}

export interface Workplace {
  /** An empty directory. */
  readonly root: string
  /** A path below `root` that does not exist yet. */
  readonly dataDir: string
  /** The running game servers, from the directory and the system instead of the API. */
  running(): Promise<readonly RunningServer[]>
}

/** Removing forty containers takes a long time on a busy machine. */
const cleanupMs = 240_000

export async function workplace(below = 'data'): Promise<Workplace> {
  const root = await mkdtemp(join(tmpdir(), 'gamekeeper-e2e-'))
  const dataDir = join(root, below)
  const place = { root, dataDir, running: () => runningIn(dataDir) }
  if (backend !== 'process') await imageBuilt()
  const leaveCluster = backend === 'kubernetes' ? await enterCluster() : async () => {}
  onTestFinished(async () => {
    await leaveCluster()
    await until(
      `no game server is left in ${dataDir}`,
      async () => {
        if (backend !== 'process') await removeContainersOf(dataDir)
        const snapshot = await new ProcessTable().snapshot()
        for (const run of await runsIn(dataDir)) {
          for (const member of membersOf(run, snapshot)) signalProcess(member, 'SIGKILL')
        }
        return (await place.running()).length === 0
      },
      cleanupMs,
    )
    await rm(root, { recursive: true, force: true, maxRetries: 5 })
  }, cleanupMs)
  return place
}

/** The process of the game itself. */
export function gamePid({ name, pids }: RunningServer): number {
  const pid = pids[1]
  if (pid === undefined) throw new Error(`the game of ${name} is not running`)
  return pid
}

interface Run {
  readonly directory: string
  readonly server: string
  readonly nonce: string
  readonly supervisor: number
}

async function runningIn(dataDir: string): Promise<readonly RunningServer[]> {
  if (backend !== 'process') {
    return (await containersOf(dataDir)).map(({ server, port, pids }) => ({ name: server, port, pids }))
  }
  const found: RunningServer[] = []
  const runs = await runsIn(dataDir)
  const snapshot = await new ProcessTable().snapshot()
  for (const run of runs) {
    const others = membersOf(run, snapshot).map(({ pid }) => pid)
    if (others.length === 0) continue
    const pids = [...others.filter((pid) => pid === run.supervisor), ...others.filter((pid) => pid !== run.supervisor)]
    found.push({ name: run.server, port: await portOf(run.directory), pids })
  }
  return found
}

function membersOf({ supervisor, nonce }: Run, snapshot: ProcessSnapshot) {
  return snapshot.membersOf({ mark: nonce, group: supervisor })
}

async function runsIn(dataDir: string): Promise<readonly Run[]> {
  const runs: Run[] = []
  for (const name of await namesIn(join(dataDir, 'instances'))) {
    const directory = join(dataDir, 'instances', name)
    for (const file of await namesIn(directory)) {
      const nonce = /^run-(.*)$/.exec(file)?.[1]
      if (nonce === undefined) continue
      const supervisor = Number(await textOf(join(directory, file, 'pid')))
      if (supervisor > 1) runs.push({ directory, server: name.slice(name.indexOf('.') + 1), nonce, supervisor })
    }
  }
  return runs
}

async function portOf(directory: string): Promise<number> {
  const match = /"public": (\d+)/.exec(await textOf(join(directory, 'instance.json')))
  return Number(match?.[1] ?? 0)
}

/** Directories may be deleted while they are read. */
async function namesIn(directory: string): Promise<readonly string[]> {
  try {
    return await readdir(directory)
  } catch {
    return []
  }
}

async function textOf(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch {
    return ''
  }
}
