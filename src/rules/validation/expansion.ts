/** Checks how large a container's environment and command line become when `$(NAME)` is expanded. Pure. */
import { partsOf } from '../game/environment.js'
import { sdkVariables } from '../game/sdk-config.js'
import { sizeLimits, utf8Bytes } from '../model/sizes.js'
import { invalid, type Refused } from './problem.js'
import type { GameContainer } from './template.js'

/** For a variable of the SDK, whose value is not known before the server starts. Long enough for any path or id. */
const sdkValueBytes = 1_024

/**
 * Checks the sizes of a container's environment and command line, with all references expanded. `at` is the path of the
 * container, for messages. Builds no expanded text, so that a reference to a reference costs nothing.
 */
export function checkExpansion({ env, command, args }: GameContainer, at: string): Refused | undefined {
  const { argumentBytes, commandBytes, environmentBytes, environmentValueBytes } = sizeLimits
  const sizes = new Map<string, number>()
  let total = 0
  for (const [i, { name, value }] of env.entries()) {
    const bytes = expandedBytes(value, sizes)
    if (bytes > environmentValueBytes) return tooLarge(`${at}.env[${i}].value`, environmentValueBytes, bytes)
    total += utf8Bytes(name) + bytes
    if (total > environmentBytes) return tooLarge(`${at}.env`, environmentBytes, total, 'in names and values')
    // The value of the SDK takes precedence unless it is empty.
    sizes.set(name, Math.max(bytes, sdkVariables.has(name) ? sdkValueBytes : 0))
  }
  total = 0
  for (const [field, parts] of Object.entries({ command, args })) {
    for (const [i, part] of parts.entries()) {
      const bytes = expandedBytes(part, sizes)
      if (bytes > argumentBytes) return tooLarge(`${at}.${field}[${i}]`, argumentBytes, bytes)
      total += bytes
      if (total > commandBytes) return tooLarge(`${at}.${field}`, commandBytes, total, 'in command and args')
    }
  }
  return undefined
}

function expandedBytes(text: string, sizes: ReadonlyMap<string, number>): number {
  let bytes = 0
  for (const part of partsOf(text)) {
    const known = part.name === undefined ? undefined : sizes.get(part.name)
    const ofSdk = part.name !== undefined && sdkVariables.has(part.name) ? sdkValueBytes : undefined
    bytes += known ?? ofSdk ?? utf8Bytes(part.text)
  }
  return bytes
}

function tooLarge(field: string, most: number, found: number, of?: string): Refused {
  const where = of === undefined ? '' : ` ${of}`
  return invalid(
    field,
    `must expand to at most ${most} bytes of UTF-8${where}, but expands to ${found}${of === undefined ? '' : ' or more'}`,
  )
}
