/** Loads optional peer dependencies: packages that a host app installs only if it uses a feature that needs them. */
import { createRequire } from 'node:module'
import { FleetError, messageOf } from '../contracts/errors.js'
import { codeOf } from './error-code.js'

/**
 * `user`: the function that needs the package, for the message. Throws `internal`, with the install command, if the package
 * cannot be loaded.
 */
export function loadOptionalPackage(name: string, user: string): unknown {
  // Resolves the package relative to this file in both module formats; `__filename` exists only in the CommonJS build.
  const here = typeof __filename === 'string' ? __filename : import.meta.url
  try {
    return createRequire(here)(name)
  } catch (error) {
    const why = codeOf(error) === 'MODULE_NOT_FOUND' ? 'is not installed' : `cannot be loaded (${messageOf(error)})`
    const message = `${user} needs the package ${name}, which ${why}: npm install ${name}`
    throw new FleetError('internal', message, { cause: error })
  }
}
