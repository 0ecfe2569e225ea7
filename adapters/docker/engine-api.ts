/** The Docker engine operations that this backend uses. */
import { Duplex, type Readable } from 'node:stream'
import type { Clock } from '../../src/contracts/clock.js'
import { FleetError, messageOf } from '../../src/contracts/errors.js'
import { codeOf } from '../../src/platform/files.js'
import { isError } from '../../src/rules/model/values.js'
import { isObject } from '../../src/rules/validation/problem.js'
import { CancelScope } from '../shared/cancel-scope.js'
import { type DialOptions, type DockerClient, endpointOf } from './docker-client.js'

interface EngineApiDependencies {
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

  /** What a container uses at this moment. Undefined if the container does not exist. */
  async stats(id: string, options?: EngineCallOptions): Promise<unknown> {
    const what = `measure container ${shortId(id)}`
    const query = { stream: false, 'one-shot': true }
    return orNotFound(this.#read({ what, method: 'GET', path: containerPath(id, '/stats'), query }, options))
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

  /** Makes a command ready to run in a container, and returns its id. */
  async createExec(
    id: string,
    command: readonly string[],
    hasInput: boolean,
    options?: EngineCallOptions,
  ): Promise<string> {
    const what = `run ${command[0] ?? ''} in container ${shortId(id)}`
    const body = { Cmd: command, AttachStdin: hasInput, AttachStdout: true, AttachStderr: true }
    const answer = await this.#change({ what, method: 'POST', path: containerPath(id, '/exec'), body }, options)
    if (isObject(answer) && typeof answer['Id'] === 'string') return answer['Id']
    throw new FleetError('internal', `the Docker engine returned no id to ${what}`)
  }

  /** Starts the command, and resolves with its connection: what is written is its input, and what is read its output in frames. */
  startExec(exec: string, options: EngineCallOptions = {}): Promise<OpenStream> {
    const what = `start command ${shortId(exec)}`
    const timeoutMs = this.#deps.changeTimeoutMs
    const body = { Detach: false, Tty: false }
    return this.#calls.open({
      what,
      method: 'POST',
      path: `/exec/${exec}/start`,
      body,
      hijack: true,
      timeoutMs,
      ...options,
    })
  }

  async inspectExec(exec: string): Promise<unknown> {
    return this.#read({ what: `inspect command ${shortId(exec)}`, method: 'GET', path: `/exec/${exec}/json` })
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

// Sends calls to the Docker engine. Each call settles when it completes, when it times out, when its signal fires, or when
// the backend closes. The paths name no API version: everything used here works the same in all versions since Docker 20.10.

interface EngineCallOptions {
  readonly signal?: AbortSignal | undefined
}

interface EngineCall extends EngineCallOptions {
  /** The operation, as named in messages: `list containers`. */
  readonly what: string
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE' | 'HEAD'
  readonly path: string
  readonly query?: Readonly<Record<string, unknown>>
  readonly body?: object
  readonly file?: Buffer
  readonly auth?: object | undefined
  /** Statuses that count as success in addition to 200, 201 and 204. */
  readonly successStatuses?: readonly number[]
  /** If true, the answer is the connection, as a stream in both directions. */
  readonly hijack?: boolean
  readonly timeoutMs: number
  /** If true, the call resolves with `timedOut` on timeout instead of failing. */
  readonly resolveOnTimeout?: boolean
}

const timedOut: unique symbol = Symbol('timedOut')

export interface OpenStream {
  readonly stream: Readable
  stop(): void
}

type Done = (failure: FleetError | undefined, answer?: unknown) => void

interface EngineCallsDependencies {
  readonly client: DockerClient
  readonly clock: Clock
  /** Called when a call fails because of its timeout. */
  readonly onTimeout: () => void
}

class EngineCalls {
  /** The engine's address, used in messages. */
  readonly endpoint: string
  readonly #deps: EngineCallsDependencies
  /** Cancels calls, streams and sleeps when the backend closes. */
  readonly #scope = new CancelScope()

  constructor(deps: EngineCallsDependencies) {
    this.#deps = deps
    this.endpoint = endpointOf(deps.client)
  }

  send(call: EngineCall): Promise<unknown> {
    const aborter = new AbortController()
    return this.#settle(call, aborter, (done) => this.#dial(call, aborter.signal, {}, done))
  }

  /** Resolves with the open stream; the timeout applies only until the stream opens. */
  async open(call: EngineCall): Promise<OpenStream> {
    const aborter = new AbortController()
    const mode = call.hijack ? { hijack: true } : { isStream: true }
    const stream = await this.#settle(call, aborter, (done) => this.#dial(call, aborter.signal, mode, done))
    if (!isReadable(stream)) throw new FleetError('internal', `the Docker engine returned no stream for: ${call.what}`)
    const stop = () => {
      aborter.abort()
      if (call.hijack) stream.destroy()
    }
    this.#scope.add(stop)
    stream.once('close', () => this.#scope.delete(stop))
    // The reader receives errors while iterating. After it stops, an error without a listener would crash the process.
    stream.on('error', () => {})
    return { stream, stop }
  }

  /**
   * Turns the call's connection into a stream, as `docker attach` does, and writes the text to it. Resolves once the engine has closed the
   * connection, which it does when it has passed on all of the text. The timeout applies to both.
   */
  async write(call: EngineCall, text: string): Promise<void> {
    const aborter = new AbortController()
    const { what } = call
    // docker-modem sends a request with a body, which the engine ignores here, or one without an end.
    const request = { ...call, body: { stdin: true } }
    await this.#settle(call, aborter, (done) =>
      this.#dial(request, aborter.signal, { hijack: true }, (failure, connection) => {
        if (failure) return done(failure)
        if (!(connection instanceof Duplex)) {
          return done(new FleetError('internal', `the Docker engine returned no connection to ${what}`))
        }
        aborter.signal.addEventListener('abort', () => connection.destroy())
        connection.once('error', (error) => done(engineFailure(error, what, this.endpoint)))
        connection.once('close', () => done(undefined))
        return connection.resume().end(text)
      }),
    )
  }

  /**
   * Resolves after `ms`, or immediately when the signal fires or the backend closes; in those cases the next call rejects.
   */
  sleep(ms: number, { signal }: EngineCallOptions = {}): Promise<void> {
    return this.#scope.sleep(this.#deps.clock, ms, signal)
  }

  /** Rejects calls in progress with `closed` and ends streams. */
  close(): void {
    this.#scope.close()
  }

  #settle(call: EngineCall, aborter: AbortController, start: (done: Done) => void): Promise<unknown> {
    const { clock, onTimeout } = this.#deps
    const { signal, timeoutMs } = call
    return new Promise((resolve, reject) => {
      const settle = (outcome: () => void) => {
        cancelTimeout()
        signal?.removeEventListener('abort', abort)
        this.#scope.delete(close)
        outcome()
      }
      const giveUp = (error: FleetError) => {
        settle(() => reject(error))
        aborter.abort()
      }
      const abort = () =>
        giveUp(new FleetError('aborted', 'the call was aborted by its signal', { cause: signal?.reason }))
      const close = () => giveUp(new FleetError('closed', 'the docker backend is closed'))
      const cancelTimeout = clock.after(timeoutMs, () => {
        if (call.resolveOnTimeout) {
          settle(() => resolve(timedOut))
          aborter.abort()
        } else {
          giveUp(this.#timeoutFailure(call))
          onTimeout()
        }
      })
      if (this.#scope.closed) return close()
      if (signal?.aborted) return abort()
      signal?.addEventListener('abort', abort, { once: true })
      this.#scope.add(close)
      start((failure, answer) => settle(() => (failure ? reject(failure) : resolve(answer))))
      return undefined
    })
  }

  #dial(call: EngineCall, abortSignal: AbortSignal, mode: Pick<DialOptions, 'isStream' | 'hijack'>, done: Done): void {
    const { what, method, path, query = {}, body = {}, file, auth, successStatuses = [] } = call
    const statusCodes = Object.fromEntries([200, 201, 204, ...successStatuses].map((status) => [status, true] as const))
    try {
      this.#deps.client.modem.dial(
        {
          path: `${path}?`,
          method,
          options: { _query: query, _body: body },
          statusCodes,
          abortSignal,
          ...mode,
          ...(file && { file }),
          ...(auth && { authconfig: auth }),
        },
        (error, answer) => {
          if (error === null || error === undefined) done(undefined, answer)
          else done(engineFailure(error, what, this.endpoint))
        },
      )
    } catch (error) {
      done(engineFailure(error, what, this.endpoint))
    }
  }

  #timeoutFailure({ what, timeoutMs }: EngineCall): FleetError {
    const message = `the Docker engine at ${this.endpoint} did not ${what} within ${timeoutMs / 1000} s`
    return new FleetError('unavailable', message)
  }
}

function isReadable(value: unknown): value is Readable {
  return typeof value === 'object' && value !== null && 'on' in value && 'pipe' in value && 'destroy' in value
}

/** HTTP status of the engine's error response, or undefined if the engine did not respond. */
export function statusOf(error: unknown): number | undefined {
  const answer = FleetError.is(error) ? error.cause : error
  const status = isObject(answer) || isError(answer) ? Reflect.get(answer, 'statusCode') : undefined
  return typeof status === 'number' ? status : undefined
}

/**
 * The message from the engine, or from the operating system if the connection failed. Falls back to the error's own message,
 * for example if a proxy in front of the engine sent an empty response.
 */
export function messageFromEngine(error: unknown): string {
  const hasCause = FleetError.is(error) && error.cause !== undefined
  return responseMessage(hasCause ? error.cause : error) || messageOf(error)
}

function responseMessage(answer: unknown): string {
  const json: unknown = isError(answer) ? Reflect.get(answer, 'json') : undefined
  if (isObject(json) && typeof json['message'] === 'string') return json['message'].trim()
  return messageOf(answer)
    .replace(/^\(HTTP code \d+\) [^-]*- /, '')
    .trim()
}

/** `what` is the operation, as named in messages: `start container x`. */
function engineFailure(error: unknown, what: string, endpoint: string): FleetError {
  if (FleetError.is(error)) return error
  const status = statusOf(error)
  const cause = { cause: error }
  if (status === undefined) {
    const hint = codeOf(error) === 'EACCES' ? 'does this user have access to it?' : 'is it running?'
    const message = `cannot reach the Docker engine at ${endpoint} (${messageFromEngine(error)}): ${hint}`
    return new FleetError('unavailable', message, cause)
  }
  const message = `the Docker engine could not ${what}: ${responseMessage(error) || `HTTP ${status} from ${endpoint}`}`
  return new FleetError(status === 400 ? 'invalid' : 'unavailable', message, cause)
}

/** The requested ports that another container or program is using. Undefined if the call failed for another reason. */
export function portsInUse(error: unknown, requested: readonly number[]): readonly number[] | undefined {
  const message = messageFromEngine(error)
  if (!/address already in use|port is already allocated|ports are not available/i.test(message)) return undefined
  const named = requested.filter((port) => new RegExp(`:${port}\\b`).test(message))
  return named.length > 0 ? named : requested
}
