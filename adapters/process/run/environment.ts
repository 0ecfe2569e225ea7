/** Builds the environment of a game's process, and expands `$(NAME)` in its command line. Pure. */
import { declaredEnvironment } from '../../../src/rules/game/environment.js'
import type { SdkConfigInput } from '../../../src/rules/game/sdk-config.js'
import type { PortPair } from '../../../src/rules/model/resources.js'
import type { GameContainer } from '../../../src/rules/validation/template.js'

/**
 * Host variables that games inherit: search path, home directory, locale, temporary directory. Other variables are not
 * inherited, because they may contain secrets.
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
  /** Names of additional host variables to inherit. */
  readonly inheritEnv: readonly string[]
  readonly container: GameContainer
  readonly sdk: SdkConfigInput
  readonly sdkConfigPath: string
  readonly ports: readonly PortPair[]
}

export interface GameEnvironment {
  readonly env: Readonly<Record<string, string>>
  /**
   * Expands `$(NAME)` as Kubernetes does, using the variables from the template, the SDK and the ports, but not the host's.
   */
  readonly expand: (text: string) => string
}

/** Declared variables (from the template, the SDK and the ports) override inherited ones. */
export function gameEnvironment(input: EnvironmentInput): GameEnvironment {
  const { declared, expand } = declaredEnvironment({
    ...input,
    listening: input.ports.map((port) => ({ container: port.container, number: port.public })),
  })
  const inherited = [...inheritedVariables, ...input.inheritEnv].flatMap((name) => {
    const value = Object.hasOwn(input.host, name) ? input.host[name] : undefined
    return value === undefined ? [] : [[name, value] as const]
  })
  // An assignment to a variable named `__proto__` would change the object instead.
  return { env: Object.fromEntries([...inherited, ...declared]), expand }
}
