/** The Docker engine for tests: the engine that DOCKER_HOST names, or the local engine. */
import Docker from 'dockerode'

/** An image with a shell and Node. */
export const baseImage = 'node:20-slim'

export const docker = new Docker()

/** The engine's socket, for the proxy. Only a local engine has one. */
export const engineSocket = /^unix:\/\/(.+)$/.exec(process.env['DOCKER_HOST'] ?? '')?.[1] ?? '/var/run/docker.sock'
