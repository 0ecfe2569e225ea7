/** `gamekeeper/docker`: game servers as containers of a Docker engine. */
import type { Backend } from '../../src/contracts/backend.js'
import { DockerBackend } from './backend.js'
import { type DockerBackendOptions, resolveDockerOptions } from './options.js'

export type { PortRange } from '../../src/rules/model/ports.js'
export type { DockerClient } from './client.js'
export type { DockerBackendOptions, PullPolicy, RegistryAuth } from './options.js'

/**
 * Runs each game server as a container: image, command, arguments, environment, working directory and resource limits of
 * the template's first container. Containers outlive this host and are found again by their labels.
 *
 * `$(NAME)` in command, arguments and values is replaced as in Kubernetes, `PORT_<containerPort>` included; `$$` stands for
 * one `$`. The SDK's configuration is copied into the container, so that the engine may be on another machine.
 *
 * Needs the package `dockerode`, unless a client is given. Throws `invalid` naming the option, and `internal` when
 * dockerode is not installed. Speaks to the engine with its first call; that one rejects with `unavailable` when there is
 * none.
 */
export function dockerBackend(options: DockerBackendOptions = {}): Backend {
  return new DockerBackend(resolveDockerOptions(options))
}
