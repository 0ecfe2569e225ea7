/** Loads optional peer dependencies: packages that a host app installs only if it uses what needs them. */
import { createRequire } from 'node:module'
import { FleetError, messageOf } from '../contracts/errors.js'
import { codeOf } from './error-code.js'

/** `user`: the function that needs the package. Throws `internal` when it cannot be loaded, with the command that installs it. */
export function loadOptionalPackage(name: string, user: string): unknown {
  // Resolves from this file in both module formats of the build; `__filename` exists in the CommonJS one only.
  const here = typeof __filename === 'string' ? __filename : import.meta.url
  try {
    return createRequire(here)(name)
  } catch (error) {
    const why = codeOf(error) === 'MODULE_NOT_FOUND' ? 'is not installed' : `cannot be loaded (${messageOf(error)})`
    const message = `${user} needs the package ${name}, which ${why}: npm install ${name}`
    throw new FleetError('internal', message, { cause: error })
  }
}
