/** `gamekeeper/docker`: runs game servers as containers on a Docker engine. */
import type { Backend } from '../../src/contracts/backend.js'
import { DockerBackend } from './backend.js'
import { type DockerBackendOptions, resolveDockerOptions } from './options.js'

export type { PortRange } from '../../src/rules/model/ports.js'
export type { DockerClient } from './docker-client.js'
export type { DockerBackendOptions, PullPolicy, RegistryAuth } from './options.js'

/**
 * Runs each game server as a container, using the image, command, arguments, environment, working directory and resource
 * limits of the template's first container. Containers keep running when the host process stops; the next host finds them by
 * their labels.
 *
 * `$(NAME)` in command, arguments and values is expanded as in Kubernetes, including `PORT_<containerPort>`; `$$` becomes a
 * single `$`. The SDK configuration is copied into the container, so the engine may run on another machine.
 *
 * Needs the package `dockerode`, unless a client is passed. Throws `invalid`, naming the invalid option, and `internal` if
 * dockerode is not installed. Connects to the engine on the first call, which rejects with `unavailable` if the connection
 * fails.
 */
export function dockerBackend(options: DockerBackendOptions = {}): Backend {
  return new DockerBackend(resolveDockerOptions(options))
}
