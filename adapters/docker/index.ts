/** `gamekeeper/docker`: game servers as containers of a Docker engine. */
import type { Backend } from '../../src/contracts/backend.js'
import { DockerBackend } from './backend.js'
import { type DockerBackendOptions, resolveDockerOptions } from './options.js'

export type { PortRange } from '../../src/rules/model/ports.js'
export type { DockerClient } from './client.js'
export type { DockerBackendOptions, PullPolicy, RegistryAuth } from './options.js'

/**
 * Runs each game server as a container: image, command, arguments, environment, working directory and resource limits of
 * the template's first container. Containers outlive the host process; the next one finds them by their labels.
 *
 * `$(NAME)` in command, arguments and values is expanded as in Kubernetes, including `PORT_<containerPort>`; `$$` yields
 * one `$`. The SDK configuration is copied into the container, so the engine may run on another machine.
 *
 * Needs the package `dockerode` unless a client is passed. Throws `invalid`, naming the option, and `internal` when
 * dockerode is not installed. The first call connects to the engine, and rejects with `unavailable` when it cannot.
 */
export function dockerBackend(options: DockerBackendOptions = {}): Backend {
  return new DockerBackend(resolveDockerOptions(options))
}
