/** The part of dockerode that this backend needs, and how it is loaded when the host app passes no client. */
import { FleetError, messageOf } from '../../src/contracts/errors.js'
import { loadOptionalPackage } from '../../src/platform/optional-package.js'
import { isLoopback } from '../../src/platform/own-address.js'

/** A client of the engine's API, such as dockerode's `new Docker()`. */
export interface DockerClient {
  readonly modem: {
    dial(options: DialOptions, callback: (error: unknown, answer: unknown) => void): void
    /** Set when the engine is reached over a network. */
    readonly host?: unknown
    readonly port?: unknown
    readonly protocol?: unknown
    readonly socketPath?: unknown
  }
}

/** One call in docker-modem's terms. */
export interface DialOptions {
  readonly path: string
  readonly method: string
  readonly options: { readonly _query: object; readonly _body: object }
  /** By status: true for success, otherwise a description of the error. */
  readonly statusCodes: Readonly<Record<number, true | string>>
  readonly abortSignal: AbortSignal
  readonly isStream?: boolean
  readonly file?: Buffer
  readonly authconfig?: object
}

/** Connects as `docker` does: DOCKER_HOST and related variables, or else this machine's socket. */
export function defaultClient(): DockerClient {
  const loaded = loadOptionalPackage('dockerode', 'dockerBackend')
  if (typeof loaded !== 'function') throw unusable()
  let client: unknown
  try {
    client = Reflect.construct(loaded, [])
  } catch (error) {
    const message = `DOCKER_HOST or a related variable is not a valid Docker engine address: ${messageOf(error)}`
    throw new FleetError('invalid', message, { cause: error })
  }
  if (isClient(client)) return client
  throw unusable()
}

function unusable(): FleetError {
  const message = 'dockerBackend cannot use the installed version of dockerode: npm install dockerode@latest'
  return new FleetError('internal', message)
}

export function isClient(value: unknown): value is DockerClient {
  if (typeof value !== 'object' || value === null || !('modem' in value)) return false
  const { modem } = value
  return typeof modem === 'object' && modem !== null && 'dial' in modem && typeof modem.dial === 'function'
}

/** Where the engine is, for messages. */
export function endpointOf({ modem }: DockerClient): string {
  const { host, port, protocol, socketPath } = modem
  if (typeof host === 'string' && host !== '') {
    const scheme = typeof protocol === 'string' ? protocol : 'http'
    return `${scheme === 'http' ? 'tcp' : scheme}://${host}${typeof port === 'string' || typeof port === 'number' ? `:${port}` : ''}`
  }
  const path = typeof socketPath === 'string' ? socketPath : '/var/run/docker.sock'
  // A Windows named pipe.
  const isPipe = path.startsWith('//') || path.startsWith('\\\\')
  return `${isPipe ? 'npipe' : 'unix'}://${path}`
}

/** The machine of a remote engine; undefined for this machine. */
export function remoteHostOf({ modem }: DockerClient): string | undefined {
  const host = typeof modem.host === 'string' ? modem.host.replace(/^\w+:\/\//, '') : ''
  return host === '' || isLoopback(host) ? undefined : host
}
