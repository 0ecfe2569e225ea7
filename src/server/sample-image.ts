/**
 * Builds the sample's image from examples/game-server/Dockerfile with the `docker` command, in the Docker engine that the
 * fleet uses.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { access } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { ownDescriptors } from '../platform/own-descriptors.js'
import { packageRoot } from '../platform/package-root.js'
import type { ServerLog } from './log.js'

export const sampleImage = 'gamekeeper-example'
/** The command with which an operator can build the image manually. */
export function manualBuildCommand(): string {
  return `cd ${packageRoot()} && docker build -f examples/game-server/Dockerfile -t ${sampleImage} .`
}

const defaultTimeoutMs = 5 * 60_000
/** How long `docker` may take to exit after SIGTERM. SIGKILL follows. */
const graceMs = 2_000
/** Enough of stderr to contain its last line. */
const maxStderrChars = 4_096

export interface ImageOptions {
  readonly log: ServerLog
  /** Cancels the build. */
  readonly signal: AbortSignal
  readonly timeoutMs?: number
}

/** Resolves with true once the image exists, or with false if the build failed; logs the reason. Never rejects. */
export async function buildSampleImage({ log, signal, timeoutMs = defaultTimeoutMs }: ImageOptions): Promise<boolean> {
  if (signal.aborted) return false
  const args = ['-H', await engineOf(process.env), 'build', '-f', 'examples/game-server/Dockerfile', '-t', sampleImage]
  const manually = `build it in ${packageRoot()} and restart: docker ${[...args, '.'].join(' ')}`
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
 * Returns the engine that dockerode connects to, as an argument for `docker -H`. The `docker` command's own context may
 * point to a different engine.
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
  // Docker Desktop's socket.
  const desktopSocket = join(homedir(), '.docker', 'run', 'docker.sock')
  try {
    await access(desktopSocket)
    return `unix://${desktopSocket}`
  } catch {
    // Docker Desktop's socket does not exist: use the default.
    return 'unix:///var/run/docker.sock'
  }
}

/** Resolves once all of the command's processes have ended: with what went wrong, or undefined on success. */
function run(args: readonly string[], signal: AbortSignal): Promise<string | undefined> {
  // The command gets its own process group, so that Ctrl-C does not reach it and its children can be killed with it.
  const child = spawn(...ownDescriptors('docker', args), {
    cwd: packageRoot(),
    stdio: ['ignore', 'ignore', 'pipe'],
    detached: true,
  })
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
    // The process group has already exited.
  }
}
