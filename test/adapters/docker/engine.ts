/** The Docker engine used by the tests: the one in DOCKER_HOST, or the local one. */
import Docker from 'dockerode'

/** An image with a shell and Node. */
export const baseImage = 'node:20-slim'

export const docker = new Docker()

/** The socket that the proxy connects to; only a local engine has one. */
export const engineSocket = /^unix:\/\/(.+)$/.exec(process.env['DOCKER_HOST'] ?? '')?.[1] ?? '/var/run/docker.sock'
