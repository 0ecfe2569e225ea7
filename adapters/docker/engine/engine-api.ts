/** The Docker engine operations that this backend uses. */
import type { Clock } from '../../../src/contracts/clock.js'
import { FleetError } from '../../../src/contracts/errors.js'
import { isObject } from '../../../src/rules/validation/problem.js'
import type { DockerClient } from './client.js'
import { type EngineCall, type EngineCallOptions, EngineCalls, type OpenStream, timedOut } from './engine-calls.js'
import { statusOf } from './engine-errors.js'

export interface EngineApiDependencies {
  readonly client: DockerClient
  readonly clock: Clock
  /** Timeout of calls that only read. */
  readonly readTimeoutMs: number
  /** Timeout of calls that change something. */
  readonly changeTimeoutMs: number
  /** Called when a call fails because of its timeout. */
  readonly onTimeout: () => void
}

/** The parts of a call that do not depend on whether it reads or changes something. */
type Request = Omit<EngineCall, 'timeoutMs' | 'signal'>

export class EngineApi {
  readonly #deps: EngineApiDependencies
  readonly #calls: EngineCalls

  constructor(deps: EngineApiDependencies) {
    this.#deps = deps
    this.#calls = new EngineCalls(deps)
  }

  async info(options?: EngineCallOptions): Promise<unknown> {
    return this.#read({ what: 'return its system information', method: 'GET', path: '/info' }, options)
  }

  /** Returns undefined if the network does not exist. */
  async network(name: string, options?: EngineCallOptions): Promise<unknown> {
    const path = `/networks/${encodeURIComponent(name)}`
    return orNotFound(this.#read({ what: `inspect network ${name}`, method: 'GET', path }, options))
  }

  async hasImage(image: string, options?: EngineCallOptions): Promise<boolean> {
    const path = `/images/${imagePath(image)}/json`
    const found = await orNotFound(this.#read({ what: `inspect image ${image}`, method: 'GET', path }, options))
    return found !== undefined
  }

  /** Streams the progress of a pull as JSON lines. */
  pull(query: { readonly fromImage: string; readonly tag: string }, auth: object | undefined): Promise<OpenStream> {
    const what = `pull ${query.fromImage}:${query.tag}`
    const timeoutMs = this.#deps.changeTimeoutMs
    return this.#calls.open({ what, method: 'POST', path: '/images/create', query, auth, timeoutMs })
  }

  /** Returns the container's id. */
  async create(name: string, body: object, options?: EngineCallOptions): Promise<string> {
    const what = `create container ${name}`
    const answer = await this.#change(
      { what, method: 'POST', path: '/containers/create', query: { name }, body },
      options,
    )
    if (isObject(answer) && typeof answer['Id'] === 'string') return answer['Id']
    throw new FleetError('internal', `the Docker engine returned no id for new container ${name}`)
  }

  /** Unpacks a tar archive in the root directory of a container, which need not be running. */
  async putFiles(id: string, archive: Buffer, options?: EngineCallOptions): Promise<void> {
    const what = `copy the SDK configuration into container ${shortId(id)}`
    const path = containerPath(id, '/archive')
    await this.#change({ what, method: 'PUT', path, query: { path: '/' }, file: archive }, options)
  }

  async connect(network: string, id: string, options?: EngineCallOptions): Promise<void> {
    const what = `connect container ${shortId(id)} to network ${network}`
    const path = `/networks/${encodeURIComponent(network)}/connect`
    await this.#change({ what, method: 'POST', path, body: { Container: id } }, options)
  }

  async start(id: string, options?: EngineCallOptions): Promise<void> {
    const what = `start container ${shortId(id)}`
    const path = containerPath(id, '/start')
    await this.#change({ what, method: 'POST', path, successStatuses: [304] }, options)
  }

  /** Returns undefined if the container does not exist. */
  async inspect(idOrName: string, options?: EngineCallOptions): Promise<unknown> {
    const what = `inspect container ${shortId(idOrName)}`
    return orNotFound(this.#read({ what, method: 'GET', path: containerPath(idOrName, '/json') }, options))
  }

  async list(labels: readonly string[], options?: EngineCallOptions): Promise<readonly unknown[]> {
    const query = { all: true, filters: JSON.stringify({ label: labels }) }
    const answer = await this.#read(
      { what: 'list containers', method: 'GET', path: '/containers/json', query },
      options,
    )
    if (isArray(answer)) return answer
    throw new FleetError('internal', 'the Docker engine returned no list of containers')
  }

  /** Succeeds if the container is no longer running. */
  async signal(id: string, signal: string, options?: EngineCallOptions): Promise<void> {
    const what = `signal container ${shortId(id)}`
    const path = containerPath(id, '/kill')
    await this.#change({ what, method: 'POST', path, query: { signal }, successStatuses: [404, 409] }, options)
  }

  /** Waits up to `timeoutMs` for a container to stop. Resolves with true once it has stopped, or with false on timeout. */
  async waitUntilStopped(id: string, timeoutMs: number, options: EngineCallOptions = {}): Promise<boolean> {
    const answer = await this.#calls.send({
      what: `wait for container ${shortId(id)}`,
      method: 'POST',
      path: containerPath(id, '/wait'),
      query: { condition: 'not-running' },
      successStatuses: [404],
      timeoutMs,
      resolveOnTimeout: true,
      ...options,
    })
    return answer !== timedOut
  }

  /**
   * Removes a container and its anonymous volumes. `force` also removes a running container, by killing it; without `force`
   * that is an error. Succeeds if the container does not exist.
   */
  async remove(id: string, force: boolean, options?: EngineCallOptions): Promise<void> {
    const what = `remove container ${shortId(id)}`
    const query = { force, v: true }
    await this.#change({ what, method: 'DELETE', path: containerPath(id), query, successStatuses: [404] }, options)
  }

  /** Streams events as JSON lines. `since` is a time in seconds on the engine's clock. */
  events(labels: readonly string[], since: number | undefined): Promise<OpenStream> {
    const filters = JSON.stringify({ type: ['container'], label: labels })
    const query = { filters, ...(since !== undefined && { since }) }
    const timeoutMs = this.#deps.readTimeoutMs
    return this.#calls.open({ what: 'stream events', method: 'GET', path: '/events', query, timeoutMs })
  }

  logs(
    id: string,
    query: { readonly follow: boolean; readonly tail: number | 'all'; readonly since?: string },
    options: EngineCallOptions = {},
  ): Promise<OpenStream> {
    return this.#calls.open({
      what: `read the log of container ${shortId(id)}`,
      method: 'GET',
      path: containerPath(id, '/logs'),
      query: { stdout: true, stderr: true, timestamps: true, ...query },
      timeoutMs: this.#deps.readTimeoutMs,
      ...options,
    })
  }

  /** Attaches to a container to write to its standard input, which stays open. Resolves once the engine has taken the text. */
  writeStdin(id: string, text: string, options: EngineCallOptions = {}): Promise<void> {
    const what = `send a line to container ${shortId(id)}`
    const query = { stream: true, stdin: true }
    const timeoutMs = this.#deps.readTimeoutMs
    return this.#calls.write(
      { what, method: 'POST', path: containerPath(id, '/attach'), query, timeoutMs, ...options },
      text,
    )
  }

  /**
   * Resolves after `ms`, or immediately when the signal fires or the backend closes; in those cases the next call rejects.
   */
  sleep(ms: number, options?: EngineCallOptions): Promise<void> {
    return this.#calls.sleep(ms, options)
  }

  close(): void {
    this.#calls.close()
  }

  #read(request: Request, options: EngineCallOptions = {}): Promise<unknown> {
    return this.#calls.send({ ...request, timeoutMs: this.#deps.readTimeoutMs, ...options })
  }

  #change(request: Request, options: EngineCallOptions = {}): Promise<unknown> {
    return this.#calls.send({ ...request, timeoutMs: this.#deps.changeTimeoutMs, ...options })
  }
}

async function orNotFound(answer: Promise<unknown>): Promise<unknown> {
  try {
    return await answer
  } catch (error) {
    if (statusOf(error) === 404) return undefined
    throw error
  }
}

function isArray(value: unknown): value is readonly unknown[] {
  return Array.isArray(value)
}

function containerPath(idOrName: string, rest = ''): string {
  return `/containers/${encodeURIComponent(idOrName)}${rest}`
}

/** Encodes the image name for a URL path, keeping its slashes. */
function imagePath(image: string): string {
  return image.split('/').map(encodeURIComponent).join('/').replaceAll('%3A', ':').replaceAll('%40', '@')
}

function shortId(idOrName: string): string {
  return /^[0-9a-f]{64}$/.test(idOrName) ? idOrName.slice(0, 12) : idOrName
}
