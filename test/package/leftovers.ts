/**
 * Fails the test run if a test left a process behind. Every process that the run starts inherits a mark in its environment;
 * processes with the mark that remain at the end are reported and killed. Reads /proc, so it works on Linux only.
 */
import { randomUUID } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { setTimeout as pause } from 'node:timers/promises'

const variable = 'GAMEKEEPER_TEST_RUN'
const mark = randomUUID()
/** How long the test runner's own workers may take to exit. */
const timeoutMs = 60_000

export function setup(): void {
  process.env[variable] = mark
}

export async function teardown(): Promise<void> {
  delete process.env[variable]
  const deadline = performance.now() + timeoutMs
  let left = await marked()
  while (left.length > 0 && performance.now() < deadline) {
    await pause(50)
    left = await marked()
  }
  if (left.length === 0) return
  for (const { pid } of left) end(pid)
  console.error(`tests left processes behind:\n${left.map(({ pid, command }) => `  ${pid} ${command}`).join('\n')}`)
  process.exitCode = 1 // vitest ignores errors of teardown
}

interface Process {
  readonly pid: number
  readonly command: string
}

async function marked(): Promise<readonly Process[]> {
  if (process.platform !== 'linux') return []
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(Number)
  const found = await Promise.all(pids.filter((pid) => pid !== process.pid).map(describe))
  return found.filter((each) => each !== undefined)
}

async function describe(pid: number): Promise<Process | undefined> {
  try {
    const environment = await readFile(`/proc/${pid}/environ`, 'utf8')
    if (!environment.split('\0').includes(`${variable}=${mark}`)) return undefined
    const command = await readFile(`/proc/${pid}/cmdline`, 'utf8')
    return { pid, command: command.split('\0').join(' ') }
  } catch {
    return undefined // exited, or belongs to another user
  }
}

function end(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // exited meanwhile
  }
}
