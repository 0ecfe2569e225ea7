/** The image of the sample: examples/game-server/Dockerfile, built by the `docker` command on the engine of the fleet. */
import { type ChildProcess, spawn } from 'node:child_process'
import { access } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { ServerLog } from './log.js'

export const sampleImage = 'gamekeeper-example'
/** For whoever has to bring it to where it is needed. */
export const imageByHand = `npm run build && docker build -f examples/game-server/Dockerfile -t ${sampleImage} .`

const root = fileURLToPath(new URL('../..', import.meta.url))
const usualLimitMs = 5 * 60_000
/** How long `docker` gets to end by itself once it is told to. */
const graceMs = 2_000
/** Of what it says, enough to hold the last line. */
const keptChars = 4_096

export interface ImageOptions {
  readonly log: ServerLog
  /** Ends the build. */
  readonly signal: AbortSignal
  readonly limitMs?: number
}

/** True once the image is there. Never rejects: why it is not, the log says. */
export async function buildSampleImage({ log, signal, limitMs = usualLimitMs }: ImageOptions): Promise<boolean> {
  if (signal.aborted) return false
  const args = ['-H', await engineOf(process.env), 'build', '-f', 'examples/game-server/Dockerfile', '-t', sampleImage]
  const byHand = `build it by hand in ${root}, and start again: docker ${[...args, '.'].join(' ')}`
  log.info({ image: sampleImage }, "building the sample's image")
  const limit = AbortSignal.timeout(limitMs)
  const problem = await run([...args, '.'], AbortSignal.any([signal, limit]))
  if (problem === undefined) return true
  if (signal.aborted) log.info({}, "the build of the sample's image was ended")
  else if (limit.aborted) {
    const seconds = limitMs / 1000
    log.warn({}, `the sample's image was not built within ${seconds} s: there is no sample; ${byHand}`)
  } else log.warn({ error: problem }, `the sample's image could not be built: there is no sample; ${byHand}`)
  return false
}

/**
 * The engine as dockerode finds it, in the words of the `docker` command, which may be set to another one by a context of
 * its own.
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
  // Where Docker Desktop has it.
  const own = join(homedir(), '.docker', 'run', 'docker.sock')
  try {
    await access(own)
    return `unix://${own}`
  } catch {
    // Not there: the usual place.
    return 'unix:///var/run/docker.sock'
  }
}

/** What went wrong, or undefined. Once it resolves nothing of the command runs any more. */
function run(args: readonly string[], signal: AbortSignal): Promise<string | undefined> {
  // In a group of its own: a Ctrl-C is for the server, and what the command has started ends with it.
  const child = spawn('docker', args, { cwd: root, stdio: ['ignore', 'ignore', 'pipe'], detached: true })
  let said = ''
  child.stderr.setEncoding('utf8').on('data', (part: string) => (said = (said + part).slice(-keptChars)))
  return new Promise((resolve) => {
    let killing: NodeJS.Timeout | undefined
    const stop = () => {
      endAll(child, 'SIGTERM')
      killing = setTimeout(() => endAll(child, 'SIGKILL'), graceMs)
    }
    const finish = (problem: string | undefined) => {
      clearTimeout(killing)
      signal.removeEventListener('abort', stop)
      resolve(problem)
    }
    child.on('error', (error) => finish(error.message))
    child.on('close', (code, killed) => {
      if (code === 0) finish(undefined)
      else finish(said.trim().split('\n').at(-1) || `docker ended with ${code ?? killed}`)
    })
    if (signal.aborted) stop()
    else signal.addEventListener('abort', stop)
  })
}

function endAll(child: ChildProcess, signal: NodeJS.Signals): void {
  if (child.pid === undefined) return
  if (process.platform === 'win32') {
    child.kill(signal)
    return
  }
  try {
    process.kill(-child.pid, signal)
  } catch {
    // Ended already.
  }
}
