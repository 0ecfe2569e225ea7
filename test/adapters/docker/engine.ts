/** The Docker engine for tests: the one of DOCKER_HOST, or the local one. */
import Docker from 'dockerode'

/** An image with a shell and Node. */
export const baseImage = 'node:20-slim'

export const docker = new Docker()

/** For the proxy; only a local engine has a socket. */
export const engineSocket = /^unix:\/\/(.+)$/.exec(process.env['DOCKER_HOST'] ?? '')?.[1] ?? '/var/run/docker.sock'
