/** What an abuse attacks: one bundled server, its builds, and the credentials of its callers. */
import type { Apis } from '../host.js'

export const tokens = {
  /** The checks and the live matches. */
  keeper: 'keeper-0123456789abcdef0123456789',
  /** A caller who is allowed to allocate and manage, and abuses it. */
  abuser: 'abuser-0123456789abcdef0123456789',
} as const

/** The builds: live matches run on `live` and must survive. Abuses may do anything to servers of `prey`. */
export const liveBuild = { name: 'live', buildID: '11111111-1111-4111-8111-111111111111' } as const
export const preyBuild = { name: 'prey', buildID: '22222222-2222-4222-8222-222222222222' } as const

export interface Target {
  readonly apis: Apis
  readonly dataDir: string
  /** Aborted when the test has to stop at once. */
  readonly signal: AbortSignal
  /** Reports that a guarantee is broken. */
  violate(what: string): void
}

export interface Abuse {
  readonly name: string
  /** Makes one round, which takes a few seconds. A rejection is reported as a violation. */
  run(target: Target): Promise<void>
}

export interface Response {
  readonly status: number
  readonly text: string
}

export async function send(
  { signal }: Pick<Target, 'signal'>,
  method: string,
  url: string,
  { token = tokens.abuser, body, ...init }: { token?: string; body?: string; signal?: AbortSignal } = {},
): Promise<Response> {
  const limit = AbortSignal.any([signal, AbortSignal.timeout(60_000), ...(init.signal ? [init.signal] : [])])
  const headers = { Authorization: `Bearer ${token}` }
  const response = await fetch(url, { method, headers, signal: limit, ...(body !== undefined && { body }) })
  return { status: response.status, text: await response.text() }
}

/** Sends as the abuser. Reports a response that is neither a success nor a refusal. */
export async function attempt(
  target: Target,
  what: string,
  method: string,
  url: string,
  options: Parameters<typeof send>[3] = {},
): Promise<Response> {
  const response = await send(target, method, url, options)
  if (response.status === 500) target.violate(`${what}: answered ${response.status} ${response.text.slice(0, 200)}`)
  return response
}

export const hostOf = (url: string) => new URL(url).host

/** A raw request, as the abuser. */
export function rawRequest(method: string, target: string, body = '', headers = ''): string {
  const length = Buffer.byteLength(body)
  return `${method} ${target} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${tokens.abuser}\r\n${headers}Content-Length: ${length}\r\n\r\n${body}`
}
