/** The example game server as an image on the tests' engine, built from its Dockerfile and dist. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { root } from '../../package/sources.js'

export const exampleImage = 'gamekeeper-example-test'

/** Uses the `docker` command, which supports .dockerignore completely. */
export async function buildExampleImage(): Promise<void> {
  const args = ['build', '-f', 'examples/game-server/Dockerfile', '-t', exampleImage, '.']
  await promisify(execFile)('docker', args, { cwd: root, maxBuffer: 64 * 1024 * 1024 })
}

export const exampleTemplate = {
  spec: {
    terminationGracePeriodSeconds: 2,
    containers: [
      {
        name: 'game',
        image: exampleImage,
        imagePullPolicy: 'Never',
        command: ['node', 'examples/game-server/server.mjs'],
        ports: [{ name: 'game', containerPort: 7777 }],
      },
    ],
  },
}
