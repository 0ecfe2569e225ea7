/** The image of the sample: examples/game-server/Dockerfile, built by the `docker` command, which asks the same engine. */
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { ServerLog } from './log.js'

export const sampleImage = 'gamekeeper-example'

const args = ['build', '-f', 'examples/game-server/Dockerfile', '-t', sampleImage, '.']
const root = fileURLToPath(new URL('../..', import.meta.url))

/** Never rejects: without the image the sample's servers stay Pending and say so, until somebody has built it. */
export async function buildSampleImage(log: ServerLog): Promise<void> {
  try {
    await promisify(execFile)('docker', args, { cwd: root, maxBuffer: 64 * 1024 * 1024 })
  } catch (error) {
    const why = error instanceof Error ? error.message.trim().split('\n').at(-1) : String(error)
    log.warn({ error: why }, `the sample's image could not be built; build it by hand: docker ${args.join(' ')}`)
  }
}
