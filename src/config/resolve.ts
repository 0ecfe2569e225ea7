/** Merges the settings from flags, environment variables and the configuration file, in this order of precedence. Pure. */
import { clientSettings } from './client-variables.js'
import { clientKeyOf, type GamekeeperConfig, keyOf } from './define-config.js'
import { type Setting, settings } from './variables.js'

type Variables = Readonly<Record<string, string | undefined>>

interface Sources {
  /** Values of flags, by variable. */
  readonly flags: Variables
  readonly env: Variables
  /** The configuration file, with its name for messages. */
  readonly file: { readonly name: string; readonly config: GamekeeperConfig } | undefined
}

export interface Resolved {
  /** All settings as if they were environment variables, besides other variables. */
  readonly env: Variables
  /** Replaces the names of variables in a message with the flag or key that set them. */
  readonly inSources: (message: string) => string
}

export function resolveSettings({ flags, env, file }: Sources): Resolved {
  const merged: Record<string, string | undefined> = { ...env }
  const names = new Map<string, string>()
  for (const [variable, value] of Object.entries(file === undefined ? {} : variablesIn(file.config))) {
    if (value === undefined || merged[variable] !== undefined) continue
    merged[variable] = value
    const key = variable in clientSettings ? `client.${clientKeyOf(variable)}` : keyOf(variable)
    names.set(variable, `${key} in ${file?.name}`)
  }
  for (const [variable, value] of Object.entries(flags)) {
    if (value === undefined) continue
    merged[variable] = value
    names.set(variable, flagOf(variable))
  }
  const inSources = (message: string) =>
    message.replaceAll(/\b[A-Z]+(?:_[A-Z]+)*\b/g, (word) => names.get(word) ?? word)
  return { env: merged, inSources }
}

/** `ALLOCATION_PORT` is `--allocation-port`, and `GAMEKEEPER_URL` is `--url`. */
export function flagOf(variable: string): string {
  const name = variable in clientSettings ? variable.replace('GAMEKEEPER_', '') : variable
  return `--${name.toLowerCase().replaceAll('_', '-')}`
}

function variablesIn(config: GamekeeperConfig): Variables {
  const { client = {}, ...server } = config
  const own: Readonly<Record<string, unknown>> = server
  const forClient: Readonly<Record<string, string | undefined>> = client
  const rows: readonly (readonly [string, Setting])[] = Object.entries(settings)
  return {
    ...Object.fromEntries(rows.map(([name, { type }]) => [name, textOf(own[keyOf(name)], type)])),
    ...Object.fromEntries(Object.keys(clientSettings).map((name) => [name, forClient[clientKeyOf(name)]])),
  }
}

/** The value as the text of an environment variable. */
function textOf(value: unknown, type: Setting['type']): string | undefined {
  if (Array.isArray(value)) return value.join(',')
  if (typeof value === 'string') return value
  if (typeof value === 'number') return String(value)
  if (typeof value !== 'boolean') return undefined
  if (type === 'flag') return value ? '1' : '0'
  return value ? 'on' : 'off'
}
