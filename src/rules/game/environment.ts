/**
 * Computes the environment variables of a game and expands `$(NAME)` in its command line. For backends that start the game
 * themselves instead of passing on the template. Pure.
 */
import type { PortPair } from '../model/resources.js'
import { sizeLimits } from '../model/sizes.js'
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
    const expanded = expandVariables(value, declared, sizeLimits.environmentValueBytes)
    if (!predefined.get(name)) declared.set(name, expanded)
  }
  return { declared, expand: (text) => expandVariables(text, declared) }
}

/** A part of a text that may contain references. */
export interface Part {
  /** The text as written, with `$$` replaced. */
  readonly text: string
  /** The name in a reference. */
  readonly name?: string
}

/** Splits a text into literal parts and references, in time in proportion to its length. */
export function partsOf(text: string): readonly Part[] {
  const parts: Part[] = []
  let start = 0
  /** False once no further reference can be closed, so that each unclosed one does not search the rest of the text. */
  let canClose = true
  for (let at = text.indexOf('$'); at >= 0; at = text.indexOf('$', at)) {
    const next = text[at + 1]
    const end = next === '(' && canClose ? text.indexOf(')', at + 2) : -1
    if (next === '$') {
      parts.push({ text: text.slice(start, at + 1) })
      at += 2
      start = at
    } else if (end >= 0) {
      parts.push({ text: text.slice(start, at) }, { text: text.slice(at, end + 1), name: text.slice(at + 2, end) })
      at = end + 1
      start = at
    } else {
      if (next === '(') canClose = false
      at += 1
    }
  }
  parts.push({ text: text.slice(start) })
  return parts
}

/**
 * Replaces `$(NAME)` with its value if `values` contains the name, and `$$` with `$`. A reference whose value would make the
 * result longer than `maxLength` characters also stays as it is.
 */
export function expandVariables(
  text: string,
  values: ReadonlyMap<string, string>,
  maxLength: number = sizeLimits.argumentBytes,
): string {
  let expanded = ''
  for (const part of partsOf(text)) {
    const value = part.name === undefined ? undefined : values.get(part.name)
    expanded += value === undefined || expanded.length + value.length > maxLength ? part.text : value
  }
  return expanded
}
