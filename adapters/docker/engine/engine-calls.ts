/**
 * Sends calls to the Docker engine. Each call settles when it completes, when it times out, when its signal fires, or when
 * the backend closes. The paths name no API version: everything used here works the same in all versions since Docker 20.10.
 */
import { Duplex, type Readable } from 'node:stream'
import type { Clock } from '../../../src/contracts/clock.js'
import { FleetError } from '../../../src/contracts/errors.js'
import { CancelScope } from '../../shared/cancel-scope.js'
import { type DialOptions, type DockerClient, endpointOf } from './client.js'
import { engineFailure } from './engine-errors.js'

export interface EngineCallOptions {
  readonly signal?: AbortSignal | undefined
}

export interface EngineCall extends EngineCallOptions {
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
  readonly timeoutMs: number
  /** If true, the call resolves with `timedOut` on timeout instead of failing. */
  readonly resolveOnTimeout?: boolean
}

export const timedOut: unique symbol = Symbol('timedOut')

export interface OpenStream {
  readonly stream: Readable
  stop(): void
}

type Done = (failure: FleetError | undefined, answer?: unknown) => void

export interface EngineCallsDependencies {
  readonly client: DockerClient
  readonly clock: Clock
  /** Called when a call fails because of its timeout. */
  readonly onTimeout: () => void
}

export class EngineCalls {
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
    const stream = await this.#settle(call, aborter, (done) =>
      this.#dial(call, aborter.signal, { isStream: true }, done),
    )
    if (!isReadable(stream)) throw new FleetError('internal', `the Docker engine returned no stream for: ${call.what}`)
    const stop = () => aborter.abort()
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
