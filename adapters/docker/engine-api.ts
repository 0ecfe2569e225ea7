/**
 * The calls of the Docker engine that this backend makes, each with a limit and an error in words. No version of the API is
 * named: what is used is the same in all since 20.10.
 */
import type { Readable } from 'node:stream'
import type { Clock } from '../../src/contracts/clock.js'
import { FleetError } from '../../src/contracts/errors.js'
import { Underway } from '../shared/underway.js'
import { isObject } from '../../src/rules/validation/problem.js'
import { type DockerClient, placeOf } from './client.js'
import { engineFailure, statusOf } from './engine-errors.js'

export interface EngineApiOptions {
  readonly client: DockerClient
  readonly clock: Clock
  /** For calls that only read. */
  readonly readTimeoutMs: number
  /** For calls that change something. */
  readonly changeTimeoutMs: number
  /** Hears of a call that was not answered in time. */
  readonly onSilence: () => void
}

export interface CallOptions {
  readonly signal?: AbortSignal | undefined
}

export interface OpenStream {
  readonly stream: Readable
  stop(): void
}

interface Call extends CallOptions {
  /** What is being done, for messages: `list containers`. */
  readonly what: string
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE' | 'HEAD'
  readonly path: string
  readonly query?: Readonly<Record<string, unknown>>
  readonly body?: object
  readonly file?: Buffer
  readonly auth?: object | undefined
  /** Besides 200, 201 and 204: what is as good as done. */
  readonly alsoFine?: readonly number[]
  readonly limitMs: number
}

export class EngineApi {
  readonly #options: EngineApiOptions
  /** Calls, streams and pauses. */
  readonly #underway = new Underway()
  readonly place: string

  constructor(options: EngineApiOptions) {
    this.#options = options
    this.place = placeOf(options.client)
  }

  async info(options?: CallOptions): Promise<unknown> {
    return this.#read('describe itself', '/info', {}, options)
  }

  /** Undefined when there is none. */
  async network(name: string, options?: CallOptions): Promise<unknown> {
    return orNothing(this.#read(`show network ${name}`, `/networks/${encodeURIComponent(name)}`, {}, options))
  }

  async hasImage(image: string, options?: CallOptions): Promise<boolean> {
    return (
      (await orNothing(this.#read(`show image ${image}`, `/images/${pathOf(image)}/json`, {}, options))) !== undefined
    )
  }

  /** The JSON lines of a pull, as they come. */
  pull(query: { readonly fromImage: string; readonly tag: string }, auth: object | undefined): Promise<OpenStream> {
    const what = `pull ${query.fromImage}:${query.tag}`
    return this.#open({
      what,
      method: 'POST',
      path: '/images/create',
      query,
      auth,
      limitMs: this.#options.changeTimeoutMs,
    })
  }

  /** Returns its id. */
  async create(name: string, body: object, options?: CallOptions): Promise<string> {
    const query = { name }
    const answer = await this.#change(
      `create container ${name}`,
      'POST',
      '/containers/create',
      { query, body },
      options,
    )
    if (isObject(answer) && typeof answer['Id'] === 'string') return answer['Id']
    throw new FleetError('internal', `the Docker engine has created container ${name} without telling its id`)
  }

  /** Unpacks a tar archive at the root of a container, whether it runs or not. */
  async putFiles(id: string, archive: Buffer, options?: CallOptions): Promise<void> {
    const more = { query: { path: '/' }, file: archive }
    await this.#change(`write the configuration into container ${short(id)}`, 'PUT', at(id, '/archive'), more, options)
  }

  async connect(network: string, id: string, options?: CallOptions): Promise<void> {
    const path = `/networks/${encodeURIComponent(network)}/connect`
    await this.#change(`connect a container to network ${network}`, 'POST', path, { body: { Container: id } }, options)
  }

  async start(id: string, options?: CallOptions): Promise<void> {
    await this.#change(`start container ${short(id)}`, 'POST', at(id, '/start'), { alsoFine: [304] }, options)
  }

  /** Undefined when there is none. */
  async inspect(idOrName: string, options?: CallOptions): Promise<unknown> {
    return orNothing(this.#read(`show container ${short(idOrName)}`, at(idOrName, '/json'), {}, options))
  }

  async list(labels: readonly string[], options?: CallOptions): Promise<readonly unknown[]> {
    const query = { all: true, filters: JSON.stringify({ label: labels }) }
    const answer = await this.#read('list containers', '/containers/json', query, options)
    if (isList(answer)) return answer
    throw new FleetError('internal', 'the Docker engine answered its list of containers with something else')
  }

  /** One that does not run any more has heard enough. */
  async signal(id: string, signal: string, options?: CallOptions): Promise<void> {
    const more = { query: { signal }, alsoFine: [404, 409] }
    await this.#change(`signal container ${short(id)}`, 'POST', at(id, '/kill'), more, options)
  }

  /** Resolves when it does not run any more, or at `limitMs`, which is no failure. */
  async untilStopped(id: string, limitMs: number, options: CallOptions = {}): Promise<boolean> {
    const query = { condition: 'not-running' }
    const call = {
      what: 'wait',
      method: 'POST',
      path: at(id, '/wait'),
      query,
      alsoFine: [404],
      limitMs,
      ...options,
    } as const
    const answer = await this.#call({ ...call, quietly: true })
    return answer !== late
  }

  /** Kills and removes it, its anonymous volumes with it. `force: false` refuses one that runs. Absent is success. */
  async remove(id: string, force: boolean, options?: CallOptions): Promise<void> {
    const more = { query: { force, v: true }, alsoFine: [404] }
    await this.#change(`remove container ${short(id)}`, 'DELETE', at(id), more, options)
  }

  /** Stays open. `since` in seconds of the engine's time. */
  events(labels: readonly string[], since: number | undefined): Promise<OpenStream> {
    const filters = JSON.stringify({ type: ['container'], label: labels })
    const query = { filters, ...(since !== undefined && { since }) }
    return this.#open({
      what: 'tell its events',
      method: 'GET',
      path: '/events',
      query,
      limitMs: this.#options.readTimeoutMs,
    })
  }

  logs(
    id: string,
    query: { readonly follow: boolean; readonly tail: number | 'all'; readonly since?: string },
    options: CallOptions = {},
  ): Promise<OpenStream> {
    return this.#open({
      ...{ what: `show the log of container ${short(id)}`, method: 'GET', path: at(id, '/logs') },
      query: { stdout: true, stderr: true, timestamps: true, ...query },
      limitMs: this.#options.readTimeoutMs,
      ...options,
    })
  }

  /** Resolves after so long, or at once when the signal fires or the backend is closed: the next call says so. */
  pause(ms: number, { signal }: CallOptions = {}): Promise<void> {
    return this.#underway.pause(this.#options.clock, ms, signal)
  }

  /** Every call that is under way rejects, every stream ends. */
  close(): void {
    this.#underway.close()
  }

  #read(what: string, path: string, query: Call['query'], options: CallOptions = {}): Promise<unknown> {
    return this.#call({
      what,
      method: 'GET',
      path,
      query: query ?? {},
      limitMs: this.#options.readTimeoutMs,
      ...options,
    })
  }

  #change(
    what: string,
    method: Call['method'],
    path: string,
    more: Pick<Call, 'query' | 'body' | 'file' | 'alsoFine'>,
    options: CallOptions = {},
  ): Promise<unknown> {
    return this.#call({ what, method, path, ...more, limitMs: this.#options.changeTimeoutMs, ...options })
  }

  async #open(call: Call): Promise<OpenStream> {
    const stop = new AbortController()
    const stream = await this.#call({ ...call, stop })
    if (!isReadable(stream)) throw new FleetError('internal', `the Docker engine gave no stream to ${call.what}`)
    const end = () => stop.abort()
    this.#underway.add(end)
    stream.once('close', () => this.#underway.delete(end))
    // What breaks it is told to whoever reads it; a stream that nobody reads any more breaks in silence.
    stream.on('error', () => {})
    return { stream, stop: end }
  }

  /**
   * Settles within its limit, whatever the connection does. With `stop` it resolves with an open stream, which the limit
   * does not touch any more.
   */
  #call(call: Call & { readonly stop?: AbortController; readonly quietly?: boolean }): Promise<unknown> {
    const { client, clock, onSilence } = this.#options
    const { what, method, path, query = {}, body = {}, file, auth, alsoFine = [], limitMs, signal } = call
    const abort = call.stop ?? new AbortController()
    return new Promise((resolve, reject) => {
      const settle = (how: () => void) => {
        cancel()
        signal?.removeEventListener('abort', aborted)
        this.#underway.delete(closed)
        how()
      }
      const giveUp = (error: FleetError) => {
        settle(() => reject(error))
        abort.abort()
      }
      const aborted = () =>
        giveUp(new FleetError('aborted', 'the call was aborted by its signal', { cause: signal?.reason }))
      const closed = () => giveUp(new FleetError('closed', 'the docker backend is closed'))
      const cancel = clock.after(limitMs, () => {
        if (call.quietly) settle(() => resolve(late))
        else {
          const limit = `within ${limitMs / 1000} s`
          giveUp(new FleetError('unavailable', `the Docker engine at ${this.place} did not ${what} ${limit}`))
          onSilence()
        }
        abort.abort()
      })
      if (this.#underway.closed) return closed()
      if (signal?.aborted) return aborted()
      signal?.addEventListener('abort', aborted, { once: true })
      this.#underway.add(closed)
      const fine = [200, 201, 204, ...alsoFine].map((status) => [status, true] as const)
      try {
        client.modem.dial(
          {
            path: `${path}?`,
            method,
            options: { _query: query, _body: body },
            statusCodes: Object.fromEntries(fine),
            abortSignal: abort.signal,
            ...(call.stop && { isStream: true }),
            ...(file && { file }),
            ...(auth && { authconfig: auth }),
          },
          (error, answer) =>
            settle(() => {
              if (error !== null && error !== undefined) reject(engineFailure(error, what, this.place))
              else resolve(answer)
            }),
        )
      } catch (error) {
        settle(() => reject(engineFailure(error, what, this.place)))
      }
      return undefined
    })
  }
}

/** Stands for an answer that did not come in time where that is no failure. */
const late = Symbol('late')

async function orNothing(answer: Promise<unknown>): Promise<unknown> {
  try {
    return await answer
  } catch (error) {
    if (statusOf(error) === 404) return undefined
    throw error
  }
}

function isList(value: unknown): value is readonly unknown[] {
  return Array.isArray(value)
}

function at(id: string, rest = ''): string {
  return `/containers/${encodeURIComponent(id)}${rest}`
}

/** A name with slashes stays as it is. */
function pathOf(image: string): string {
  return image.split('/').map(encodeURIComponent).join('/').replaceAll('%3A', ':').replaceAll('%40', '@')
}

function short(id: string): string {
  return /^[0-9a-f]{64}$/.test(id) ? id.slice(0, 12) : id
}

function isReadable(value: unknown): value is Readable {
  return typeof value === 'object' && value !== null && 'on' in value && 'pipe' in value && 'destroy' in value
}
