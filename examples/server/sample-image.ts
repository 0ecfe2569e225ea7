/** Builds the sample's image from examples/game-server/Dockerfile with the `docker` command, on the fleet's engine. */
import { type ChildProcess, spawn } from 'node:child_process'
import { access } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { ServerLog } from './log.js'

export const sampleImage = 'gamekeeper-example'
/** The command to build it manually. */
export const manualBuildCommand = `npm run build && docker build -f examples/game-server/Dockerfile -t ${sampleImage} .`

const root = fileURLToPath(new URL('../..', import.meta.url))
const defaultTimeoutMs = 5 * 60_000
/** Time for `docker` to exit on SIGTERM before SIGKILL. */
const graceMs = 2_000
/** Enough of stderr to hold its last line. */
const maxStderrChars = 4_096

export interface ImageOptions {
  readonly log: ServerLog
  /** Cancels the build. */
  readonly signal: AbortSignal
  readonly timeoutMs?: number
}

/** True once the image exists. Never rejects: logs why the build failed. */
export async function buildSampleImage({ log, signal, timeoutMs = defaultTimeoutMs }: ImageOptions): Promise<boolean> {
  if (signal.aborted) return false
  const args = ['-H', await engineOf(process.env), 'build', '-f', 'examples/game-server/Dockerfile', '-t', sampleImage]
  const manually = `build it in ${root} and restart: docker ${[...args, '.'].join(' ')}`
  log.info({ image: sampleImage }, "building the sample's image")
  const timeout = AbortSignal.timeout(timeoutMs)
  const problem = await run([...args, '.'], AbortSignal.any([signal, timeout]))
  if (problem === undefined) return true
  if (signal.aborted) log.info({}, "build of the sample's image cancelled")
  else if (timeout.aborted) {
    const seconds = timeoutMs / 1000
    log.warn({}, `the sample's image was not built within ${seconds} s, so there is no sample; ${manually}`)
  } else log.warn({ reason: problem }, `building the sample's image failed, so there is no sample; ${manually}`)
  return false
}

/**
 * The engine that dockerode connects to, as an argument of `docker -H`: the command's desktopSocket context may point to another.
 */
export async function engineOf(env: Readonly<Record<string, string | undefined>>): Promise<string> {
  const host = env['DOCKER_HOST'] ?? ''
  if (host === '' || host === 'unix://') return localEngine()
  if (host === 'npipe://') return windowsPipe
  return host.includes('//') ? host.replace(/^https?:/, 'tcp:') : `tcp://${host}`
}

const windowsPipe = 'npipe:////./pipe/docker_engine'

async function localEngine(): Promise<string> {
  if (process.platform === 'win32') return windowsPipe
  // Docker Desktop.
  const desktopSocket = join(homedir(), '.docker', 'run', 'docker.sock')
  try {
    await access(desktopSocket)
    return `unix://${desktopSocket}`
  } catch {
    // Not there: use the default.
    return 'unix:///var/run/docker.sock'
  }
}

/** Resolves with what went wrong, or undefined, once no process of the command is left. */
function run(args: readonly string[], signal: AbortSignal): Promise<string | undefined> {
  // In its desktopSocket process group, so that Ctrl-C does not reach it and its children can be killed with it.
  const child = spawn('docker', args, { cwd: root, stdio: ['ignore', 'ignore', 'pipe'], detached: true })
  let stderr = ''
  child.stderr.setEncoding('utf8').on('data', (part: string) => (stderr = (stderr + part).slice(-maxStderrChars)))
  return new Promise((resolve) => {
    let killing: NodeJS.Timeout | undefined
    const stop = () => {
      killGroup(child, 'SIGTERM')
      killing = setTimeout(() => killGroup(child, 'SIGKILL'), graceMs)
    }
    const finish = (problem: string | undefined) => {
      clearTimeout(killing)
      signal.removeEventListener('abort', stop)
      resolve(problem)
    }
    child.on('error', (error) => finish(error.message))
    child.on('close', (code, killed) => {
      if (code === 0) finish(undefined)
      else finish(stderr.trim().split('\n').at(-1) || `docker exited with ${code ?? killed}`)
    })
    if (signal.aborted) stop()
    else signal.addEventListener('abort', stop)
  })
}

function killGroup(child: ChildProcess, signal: NodeJS.Signals): void {
  if (child.pid === undefined) return
  if (process.platform === 'win32') {
    child.kill(signal)
    return
  }
  try {
    process.kill(-child.pid, signal)
  } catch {
    // Already exited.
  }
}
