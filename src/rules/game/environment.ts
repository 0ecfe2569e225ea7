/**
 * Computes the environment variables of a game and expands `$(NAME)` in its command line. For backends that start the game
 * themselves instead of passing on the template. Pure.
 */
import type { PortPair } from '../model/resources.js'
import type { GameContainer } from '../validation/template.js'
import { type SdkConfigInput, sdkEnvironment } from './sdk-config.js'

export interface DeclaredEnvironmentInput {
  readonly container: GameContainer
  readonly sdk: SdkConfigInput
  readonly sdkConfigPath: string
  /** The number that the game listens on for each container port. */
  readonly listening: readonly { readonly container: PortPair['container']; readonly number: number }[]
}

export interface DeclaredEnvironment {
  /** Excludes variables inherited from the machine or the image. */
  readonly declared: ReadonlyMap<string, string>
  /** Replaces `$(NAME)` as Kubernetes does, using declared variables only. */
  readonly expand: (text: string) => string
}

/**
 * `PORT_<containerPort>` variables override the SDK's variables, which override the template's. A variable that the SDK
 * leaves empty, such as `PF_TITLE_ID`, does not override the template's.
 */
export function declaredEnvironment(input: DeclaredEnvironmentInput): DeclaredEnvironment {
  const predefined = new Map<string, string>(Object.entries(sdkEnvironment(input.sdk)))
  predefined.set('GSDK_CONFIG_FILE', input.sdkConfigPath)
  for (const { container, number } of input.listening) predefined.set(`PORT_${container}`, String(number))

  const declared = new Map(predefined)
  for (const { name, value } of input.container.env) {
    const expanded = expandVariables(value, declared)
    if (!predefined.get(name)) declared.set(name, expanded)
  }
  return { declared, expand: (text) => expandVariables(text, declared) }
}

/** Replaces `$(NAME)` with its value if `values` contains the name, and `$$` with `$`. */
export function expandVariables(text: string, values: ReadonlyMap<string, string>): string {
  return text.replace(/\$(?:\$|\(([^)]*)\))/g, (whole: string, name: string | undefined) =>
    name === undefined ? '$' : (values.get(name) ?? whole),
  )
}
