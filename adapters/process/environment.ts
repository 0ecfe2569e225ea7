/** The environment of a game's process, and `$(NAME)` in its command line. Pure. */
import { declaredEnvironment } from '../../src/rules/game/environment.js'
import type { SdkConfigInput } from '../../src/rules/game/sdk-config.js'
import type { GameContainer } from '../../src/rules/validation/template.js'
import type { PortPair } from '../../src/rules/model/resources.js'

/**
 * What a game gets of the host's environment: enough to find programs, a home, the language and a place for temporary
 * files. All else stays with the host, whose secrets are no business of a game.
 */
export const inheritedVariables: readonly string[] = Object.freeze([
  'PATH',
  'HOME',
  'USER',
  'LOGNAME',
  'SHELL',
  'LANG',
  'LANGUAGE',
  'LC_ALL',
  'LC_CTYPE',
  'LC_COLLATE',
  'LC_MESSAGES',
  'LC_MONETARY',
  'LC_NUMERIC',
  'LC_TIME',
  'TZ',
  'TMPDIR',
])

export interface EnvironmentInput {
  readonly host: Readonly<Record<string, string | undefined>>
  /** Names taken from the host besides `inheritedVariables`. */
  readonly inheritEnv: readonly string[]
  readonly container: GameContainer
  readonly sdk: SdkConfigInput
  readonly sdkConfigPath: string
  readonly ports: readonly PortPair[]
}

export interface GameEnvironment {
  readonly env: Readonly<Record<string, string>>
  /** Replaces `$(NAME)` as Kubernetes does, by what the template, the SDK or a port has set; not by the host's. */
  readonly expand: (text: string) => string
}

/** Later wins: the host's, then what the template, the SDK and the ports declare. */
export function gameEnvironment(input: EnvironmentInput): GameEnvironment {
  const { declared, expand } = declaredEnvironment({
    ...input,
    listening: input.ports.map((port) => ({ container: port.container, number: port.public })),
  })
  const env: Record<string, string> = {}
  for (const name of [...inheritedVariables, ...input.inheritEnv]) {
    const value = input.host[name]
    if (value !== undefined) env[name] = value
  }
  for (const [name, value] of declared) env[name] = value
  return { env, expand }
}
