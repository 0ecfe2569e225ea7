/** The Docker engine that tests run on: the one of DOCKER_HOST, or of this machine. */
import Docker from 'dockerode'

/** An image with a shell and node in it. */
export const baseImage = 'node:20-slim'

export const docker = new Docker()

/** For what stands between a client and the engine: only an engine of this machine has one. */
export const engineSocket = /^unix:\/\/(.+)$/.exec(process.env['DOCKER_HOST'] ?? '')?.[1] ?? '/var/run/docker.sock'
