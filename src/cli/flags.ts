/** The settings of a command: its flags, the environment and the configuration file. */
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { basename, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { InvalidArgumentError } from 'commander'
import { checkConfig, type GamekeeperConfig } from '../config/define-config.js'
import { type Resolved, resolveSettings } from '../config/resolve.js'
import { UsageError } from '../config/usage-error.js'
import { FleetError, messageOf } from '../contracts/errors.js'
import { codeOf } from '../platform/files.js'
import { takeSecrets } from '../server/secrets.js'
import type { Terminal } from './terminal.js'

/** Flags by the names of their variables. */
type Flags = Readonly<Record<string, string | undefined>>

interface ConfigOption {
  readonly config?: string
}

export const configOption = [
  '--config <file>',
  'Configuration file. Default: gamekeeper.config.ts, .mjs or .json in the current directory.',
] as const

/** Secrets are removed from the environment of this process. Throws UsageError. */
export async function settingsOf(terminal: Terminal, { config }: ConfigOption, flags: Flags): Promise<Resolved> {
  const env = takeSecrets(terminal.env)
  return resolveSettings({ flags, env, file: await loadConfig(config, terminal.cwd) })
}

const names = ['gamekeeper.config.ts', 'gamekeeper.config.mjs', 'gamekeeper.config.json']

interface LoadedConfig {
  /** For messages. */
  readonly name: string
  readonly config: GamekeeperConfig
}

/**
 * Loads `path`, or else the configuration file in `cwd`, if there is one. Throws UsageError if it cannot be read, or has an unknown
 * key or a value of the wrong type.
 */
async function loadConfig(path: string | undefined, cwd: string): Promise<LoadedConfig | undefined> {
  const file = path === undefined ? findIn(cwd) : resolve(cwd, path)
  if (file === undefined) return undefined
  const name = path ?? basename(file)
  if (!existsSync(file)) throw new UsageError(`--config: there is no file ${name}`)
  const config = name.endsWith('.json') ? await readJson(file, name) : await importModule(file, name)
  try {
    checkConfig(config, name)
  } catch (error) {
    if (!FleetError.is(error, 'invalid')) throw error
    throw new UsageError(error.message, { cause: error })
  }
  return { name, config }
}

function findIn(cwd: string): string | undefined {
  const found = names.filter((name) => existsSync(resolve(cwd, name)))
  if (found.length > 1) throw new UsageError(`found ${found.join(' and ')}: keep one, or name one with --config`)
  return found[0] === undefined ? undefined : resolve(cwd, found[0])
}

async function readJson(file: string, name: string): Promise<unknown> {
  const text = decodeText(await readFile(file), name)
  try {
    const value: unknown = JSON.parse(text)
    return value
  } catch (error) {
    throw new UsageError(`${name} cannot be read as JSON: ${messageOf(error)}`, { cause: error })
  }
}

async function importModule(file: string, name: string): Promise<unknown> {
  let loaded: { readonly default?: unknown }
  try {
    loaded = await import(pathToFileURL(file).href)
  } catch (error) {
    if (codeOf(error) === 'ERR_UNKNOWN_FILE_EXTENSION') {
      throw new UsageError(
        `${name} needs a Node that strips types, 22.18 or later, but this is Node ${process.versions.node}: use gamekeeper.config.mjs or gamekeeper.config.json`,
        { cause: error },
      )
    }
    throw new UsageError(`${name} cannot be loaded: ${messageOf(error)}`, { cause: error })
  }
  if (loaded.default === undefined) throw new UsageError(`${name} has no default export: write export default { … }`)
  return loaded.default
}

const utf8 = new TextDecoder('utf-8', { fatal: true })

/** Decodes UTF-8, with or without a byte order mark. Throws UsageError, naming the file, for any other encoding. */
export function decodeText(bytes: Uint8Array, name: string): string {
  const [first, second] = bytes
  const hasUtf16Mark = (first === 0xff && second === 0xfe) || (first === 0xfe && second === 0xff)
  // Without a mark, every other byte of ASCII text is 0.
  if (hasUtf16Mark || (bytes.length > 1 && (first === 0 || second === 0))) {
    throw new UsageError(
      `${name} is UTF-16, as > of Windows PowerShell writes it; save it as UTF-8: … | Out-File -Encoding utf8 <file>`,
    )
  }
  try {
    return utf8.decode(bytes)
  } catch (error) {
    throw new UsageError(`${name} holds bytes that are not UTF-8; save it as UTF-8`, { cause: error })
  }
}

export function wholeNumber(from: number, to: number): (text: string) => number {
  return (text) => {
    const value = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN
    if (!(value >= from && value <= to))
      throw new InvalidArgumentError(`It must be a whole number from ${from} to ${to}.`)
    return value
  }
}

export function numberBetween(from: number, to: number): (text: string) => number {
  return (text) => {
    const value = /^\d{1,9}(\.\d{1,9})?$/.test(text) ? Number(text) : Number.NaN
    if (!(value >= from && value <= to)) throw new InvalidArgumentError(`It must be a number from ${from} to ${to}.`)
    return value
  }
}
