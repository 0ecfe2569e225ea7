/**
 * The variables that a game is given, and `$(NAME)` in its command line: the same on every backend that reads the first
 * container itself. Pure.
 */
import type { PortPair } from '../model/resources.js'
import { type SdkConfigInput, sdkEnvironment } from './sdk-config.js'
import type { GameContainer } from '../validation/template.js'

export interface DeclaredEnvironmentInput {
  readonly container: GameContainer
  readonly sdk: SdkConfigInput
  readonly sdkConfigPath: string
  /** By container port, the number that the game listens on. */
  readonly listening: readonly { readonly container: PortPair['container']; readonly number: number }[]
}

export interface DeclaredEnvironment {
  /** Without anything of the machine it runs on. */
  readonly declared: ReadonlyMap<string, string>
  /** Replaces `$(NAME)` as Kubernetes does, by what is declared; not by what the machine or an image adds. */
  readonly expand: (text: string) => string
}

/**
 * Later wins: the template's, the SDK's and `PORT_<containerPort>`. What the SDK would set to nothing (`PF_TITLE_ID`) is
 * left to the template.
 */
export function declaredEnvironment(input: DeclaredEnvironmentInput): DeclaredEnvironment {
  const given = new Map<string, string>(Object.entries(sdkEnvironment(input.sdk)))
  given.set('GSDK_CONFIG_FILE', input.sdkConfigPath)
  for (const { container, number } of input.listening) given.set(`PORT_${container}`, String(number))

  const declared = new Map(given)
  for (const { name, value } of input.container.env) {
    const expanded = expandVariables(value, declared)
    if (!given.get(name)) declared.set(name, expanded)
  }
  return { declared, expand: (text) => expandVariables(text, declared) }
}

/** `$(NAME)` of a known name is replaced, of an unknown one left as it is; `$$` stands for `$`. */
export function expandVariables(text: string, values: ReadonlyMap<string, string>): string {
  return text.replace(/\$(?:\$|\(([^)]*)\))/g, (whole: string, name: string | undefined) =>
    name === undefined ? '$' : (values.get(name) ?? whole),
  )
}
