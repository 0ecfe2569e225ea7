/** How commands reach a running server: the client that their flags, the environment and the configuration file describe. */
import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { request } from 'node:https'
import { Readable } from 'node:stream'
import { createSecureContext } from 'node:tls'
import type { Command } from 'commander'
import { type FleetClient, fleetClient } from '../client/index.js'
import { clientSettings } from '../config/client-variables.js'
import { clientKeyOf } from '../config/define-config.js'
import { flagOf, type Resolved } from '../config/resolve.js'
import { CommandLineError, UsageError } from '../config/usage-error.js'
import { settings } from '../config/variables.js'
import { messageOf } from '../contracts/errors.js'
import { configOption, settingsOf } from './flags.js'
import type { Terminal } from './terminal.js'

/** The flags of all commands that talk to a server. */
export interface ClientFlags extends Readonly<Record<string, unknown>> {
  readonly config?: string
  readonly json?: boolean
}

export interface CommandTarget {
  readonly client: FleetClient
  readonly managementUrl: string
  readonly namespace: string
  /** A build or server that the command line names, in the chosen namespace. */
  readonly ref: (name: string) => { readonly namespace: string; readonly name: string }
}

export function addClientOptions(command: Command): Command {
  command.option('--json', 'Print JSON.')
  for (const [name, setting] of Object.entries(clientSettings)) {
    if (!('placeholder' in setting)) continue
    const short = name === 'GAMEKEEPER_NAMESPACE' ? '-n, ' : ''
    command.option(`${short}${flagOf(name)} <${setting.placeholder}>`, setting.meaning.replaceAll('`', ''))
  }
  return command.option(...configOption)
}

/** Throws UsageError if a setting is invalid or a file cannot be read. Does not connect. */
export async function commandTarget(terminal: Terminal, flags: ClientFlags): Promise<CommandTarget> {
  return targetIn(await clientSettingsOf(terminal, flags))
}

/** The settings of a command that talks to a server. `more`: values of other flags, by variable. */
export async function clientSettingsOf(
  terminal: Terminal,
  flags: ClientFlags,
  more: Readonly<Record<string, string | undefined>> = {},
): Promise<Resolved> {
  const given: Record<string, string | undefined> = { ...more }
  for (const name of Object.keys(clientSettings)) {
    const value = flags[clientKeyOf(name)]
    if (typeof value === 'string') given[name] = value
  }
  return settingsOf(terminal, flags, given)
}

/** Throws UsageError like `targetOf`. */
export function targetIn({ env, inSources }: Resolved): CommandTarget {
  const read = (name: string) => {
    const path = env[name]
    return path === undefined ? undefined : readIn(inSources(name), path)
  }
  const managementUrl = checkedUrl(inSources('GAMEKEEPER_URL'), env['GAMEKEEPER_URL'] ?? ownUrl(env))
  const allocationUrl = checkedUrl(
    inSources('GAMEKEEPER_ALLOCATION_URL'),
    env['GAMEKEEPER_ALLOCATION_URL'] ??
      withPort(managementUrl, env['ALLOCATION_PORT'] ?? settings.ALLOCATION_PORT.fallback),
  )
  const token = env['GAMEKEEPER_TOKEN'] ?? read('GAMEKEEPER_TOKEN_FILE')?.toString().trim()
  const [ca, cert, key] = [read('GAMEKEEPER_CA'), read('GAMEKEEPER_CERT'), read('GAMEKEEPER_KEY')]
  checkTls(env, inSources, { managementUrl, allocationUrl }, { ca, cert, key })
  const hasTls = ca !== undefined || cert !== undefined || key !== undefined
  const client = fleetClient({
    managementUrl,
    allocationUrl,
    ...(token !== undefined && { token }),
    ...(hasTls && { fetch: tlsFetch({ ca, cert, key }) }),
    retries: 0,
  })
  return { client, managementUrl, ...namesIn(env) }
}

/** The chosen namespace, and what names mean in it. */
export function namesIn(env: Resolved['env']): Pick<CommandTarget, 'namespace' | 'ref'> {
  const namespace = env['GAMEKEEPER_NAMESPACE'] ?? 'default'
  return { namespace, ref: (name) => refOf(name, namespace) }
}

/** `namespace/name`, or a name in the chosen namespace. */
function refOf(text: string, namespace: string): { readonly namespace: string; readonly name: string } {
  const [first = '', second, ...others] = text.split('/')
  if (first === '' || second === '' || others.length > 0) {
    throw new CommandLineError(`expected a name or namespace/name, but got ${JSON.stringify(text)}`)
  }
  return second === undefined ? { namespace, name: first } : { namespace: first, name: second }
}

/** How a command line names a build or server. */
export function argumentOf({ namespace, name }: { readonly namespace: string; readonly name: string }): string {
  return namespace === 'default' ? name : `${namespace}/${name}`
}

/** The address of a server with the settings of this directory. */
export function ownUrl(env: Readonly<Record<string, string | undefined>>): string {
  const { HOST: host = settings.HOST.fallback, MANAGEMENT_PORT: port = settings.MANAGEMENT_PORT.fallback } = env
  const isAny = host === '0.0.0.0' || host === '::'
  const shown = host.includes(':') ? `[${host}]` : host
  return `${env['TLS_CERT'] === undefined ? 'http' : 'https'}://${isAny ? '127.0.0.1' : shown}:${port}`
}

function withPort(url: string, port: string): string {
  const copy = new URL(url)
  copy.port = port
  return copy.href
}

function checkedUrl(name: string, url: string): string {
  if (/^https?:\/\//.test(url) && URL.canParse(url)) return url
  throw new UsageError(`${name} must be a URL like http://127.0.0.1:5001, but is ${JSON.stringify(url)}`)
}

interface TlsFiles {
  readonly ca: Buffer | undefined
  readonly cert: Buffer | undefined
  readonly key: Buffer | undefined
}

/** Throws UsageError if the files go with neither the URLs nor each other. */
function checkTls(
  env: Resolved['env'],
  inSources: Resolved['inSources'],
  urls: { readonly managementUrl: string; readonly allocationUrl: string },
  { ca, cert, key }: TlsFiles,
): void {
  const [first] = (['GAMEKEEPER_CA', 'GAMEKEEPER_CERT', 'GAMEKEEPER_KEY'] as const).filter((name) => env[name])
  if (first === undefined) return
  const given = inSources(first)
  const other = (name: string) => (given.startsWith('--') ? flagOf(name) : inSources(name))
  const plain = Object.values(urls).find((url) => !url.startsWith('https://'))
  if (plain !== undefined) {
    const name = plain === urls.managementUrl ? 'GAMEKEEPER_URL' : 'GAMEKEEPER_ALLOCATION_URL'
    throw new UsageError(
      `${given} needs HTTPS, but the URL is ${plain}: set ${other(name)} to one that begins with https://`,
    )
  }
  if ((cert === undefined) !== (key === undefined)) {
    const [has, needs] = cert === undefined ? ['KEY', 'CERT'] : ['CERT', 'KEY']
    throw new UsageError(`${inSources(`GAMEKEEPER_${has}`)} needs ${other(`GAMEKEEPER_${needs}`)}`)
  }
  try {
    // An empty file would mean the CA certificates of Node.
    if (ca) void new X509Certificate(ca)
  } catch (error) {
    throw new UsageError(`${inSources('GAMEKEEPER_CA')} contains no certificate: ${messageOf(error)}`, { cause: error })
  }
  try {
    createSecureContext({ ...(cert && { cert }), ...(key && { key }) })
  } catch (error) {
    throw new UsageError(
      `${inSources('GAMEKEEPER_CERT')} and ${inSources('GAMEKEEPER_KEY')} are not a certificate and its key: ${messageOf(error)}`,
      { cause: error },
    )
  }
}

function readIn(name: string, path: string): Buffer {
  try {
    return readFileSync(path)
  } catch (error) {
    throw new UsageError(`${name} names ${JSON.stringify(path)}, which cannot be read: ${messageOf(error)}`, {
      cause: error,
    })
  }
}

/**
 * `fetch` with own CA certificates or a client certificate, which the global one cannot be given. Sends text bodies only, which is what the
 * client sends.
 */
function tlsFetch(files: TlsFiles): (url: string, init: RequestInit) => Promise<Response> {
  return (url, { method = 'GET', headers, body, signal }) =>
    new Promise((resolve, reject) => {
      const options = { ...files, method, headers: Object.fromEntries(new Headers(headers)), ...(signal && { signal }) }
      const sent = request(url, options, (answer) => {
        const { statusCode: status = 500, headers: received } = answer
        const pairs = Object.entries(received).flatMap(([name, value]) =>
          value === undefined ? [] : [[name, String(value)] as [string, string]],
        )
        const hasBody = status !== 204 && status !== 304
        if (!hasBody) answer.resume()
        // The types of node:stream/web and of the global streams differ only in name.
        const stream = Readable.toWeb(answer) as ReadableStream
        resolve(new Response(hasBody ? stream : undefined, { status, headers: pairs }))
      })
      sent.on('error', reject)
      sent.end(typeof body === 'string' ? body : undefined)
    })
}
