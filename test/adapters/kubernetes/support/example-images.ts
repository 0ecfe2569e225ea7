/** The images of examples/server and examples/game-server, built from this checkout and known to the nodes. */
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { root } from '../../../package/sources.js'

const run = promisify(execFile)

/** Builds `gamekeeper` and `gamekeeper-example`, and makes them known to the nodes. */
export async function makeExampleImages(): Promise<void> {
  await run(process.execPath, [join(root, '.scripts/build.mjs'), '--js'])
  await run(process.execPath, [join(root, '.scripts/bundle.mjs')])
  await makeImage('gamekeeper', 'examples/server/Dockerfile')
  await makeImage('gamekeeper-example', 'examples/game-server/Dockerfile')
}

async function makeImage(name: string, dockerfile: string): Promise<void> {
  await run('docker', ['build', '-q', '-f', dockerfile, '-t', name, '.'], { cwd: root })
  await loadImage(name)
}

/**
 * Makes an image of this machine's Docker known to the nodes, unless they share its images: by the command in LOAD_IMAGE, such as
 * `kind load docker-image`, which is called with the name of the image. Every suite gets its images to the nodes this way.
 */
export async function loadImage(name: string): Promise<void> {
  const command = process.env['LOAD_IMAGE']
  if (command !== undefined) await run('sh', ['-c', `${command} "$0"`, name], { cwd: root })
}
