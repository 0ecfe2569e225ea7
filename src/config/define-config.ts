/** The configuration file of the bundled server and the command line: its type, and the check of its content. Pure. */
import {
  aBoolean,
  aNumber,
  anObject,
  aString,
  checkOptions,
  type OptionType,
  type OptionTypes,
} from '../contracts/option-checks.js'
import { clientSettings, type ClientSettingName } from './client-variables.js'
import { type Setting, type SettingName, settings, type SettingType } from './variables.js'

/** `ALLOCATION_PORT` is `allocationPort`. */
type CamelCase<Name extends string> = Name extends `${infer First}_${infer Rest}`
  ? `${Lowercase<First>}${Capitalize<CamelCase<Rest>>}`
  : Lowercase<Name>

type ValueOf<S> = S extends { readonly type: infer T }
  ? T extends readonly (infer Word)[]
    ? Word
    : T extends keyof Values
      ? Values[T]
      : never
  : string

interface Values {
  readonly text: string
  readonly number: number
  readonly switch: boolean
  readonly flag: boolean
  readonly list: readonly string[]
  readonly rate: number | false
}

type ServerConfig = { readonly [N in SettingName as CamelCase<N>]?: ValueOf<(typeof settings)[N]> }

/** How commands reach a running server. */
export type ClientConfig = {
  readonly [N in ClientSettingName as N extends `GAMEKEEPER_${infer Rest}` ? CamelCase<Rest> : never]?: string
}

/**
 * The content of `gamekeeper.config.{ts,mjs,json}`. Its keys are the environment variables in docs/reference/environment.md, in
 * camel case: `allocationPort` for ALLOCATION_PORT.
 */
export interface GamekeeperConfig extends ServerConfig {
  /** How commands reach a running server: `url` for GAMEKEEPER_URL. */
  readonly client?: ClientConfig
}

/** Returns its argument, so that an editor completes and checks a `gamekeeper.config.ts`. Throws `invalid`, naming the key. */
export function defineConfig(config: GamekeeperConfig): GamekeeperConfig {
  checkConfig(config, 'defineConfig')
  return config
}

/** The key of a variable in the configuration file. */
export function keyOf(variable: string): string {
  return variable.toLowerCase().replaceAll(/_(\w)/g, (_, letter: string) => letter.toUpperCase())
}

export function clientKeyOf(variable: string): string {
  return keyOf(variable.replace('GAMEKEEPER_', ''))
}

/** Throws `invalid`, naming the key and `owner`, such as the file. */
export function checkConfig(config: unknown, owner: string): asserts config is GamekeeperConfig {
  checkOptions(owner, config, configTypes)
  const { client } = config as { readonly client?: unknown }
  if (client !== undefined) checkOptions(`${owner}: client`, client, clientTypes)
}

const listType: OptionType = {
  must: 'must be an array of strings, or text with commas',
  is: (value) => typeof value === 'string' || (Array.isArray(value) && value.every((one) => typeof one === 'string')),
}

function optionType(type: SettingType): OptionType {
  switch (type) {
    case 'text':
      return aString
    case 'number':
      return aNumber
    case 'switch':
    case 'flag':
      return aBoolean
    case 'list':
      return listType
    case 'rate':
      return { must: 'must be a number, or false for no limit', is: (v) => typeof v === 'number' || v === false }
    default:
      return { must: `must be one of ${type.join(', ')}`, is: (value) => type.some((word) => word === value) }
  }
}

const rows: readonly (readonly [string, Setting])[] = Object.entries(settings)
const clientTypes: OptionTypes<object> = Object.fromEntries(
  Object.keys(clientSettings).map((name) => [clientKeyOf(name), aString]),
)
const configTypes: OptionTypes<object> = {
  ...Object.fromEntries(rows.map(([name, { type = 'text' }]) => [keyOf(name), optionType(type)])),
  client: anObject,
}
