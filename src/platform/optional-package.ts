/** Loads optional peer dependencies: packages that a host app installs only if it uses a feature that needs them. */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { FleetError, messageOf } from '../contracts/errors.js'
import { isObject } from '../rules/validation/problem.js'
import { codeOf } from './error-code.js'
import { requireHere } from './package-root.js'

/** The newest major version of each that loads in every Node that gamekeeper supports. Newer ones may also be in its range. */
const majors = { '@kubernetes/client-node': 1, '@opentelemetry/api': 1, dockerode: 5, 'prom-client': 15 } as const

export type OptionalPackage = keyof typeof majors

/** The command that installs it, as guides show it. */
export function installCommand(name: OptionalPackage): string {
  return `npm install ${name}@${majors[name]}`
}

/**
 * `user`: the function that needs the package, for the message. Throws `internal`, with what failed and the install command, if the package
 * cannot be loaded.
 */
export function loadOptionalPackage(name: OptionalPackage, user: string): unknown {
  const require = requireHere()
  try {
    return require(name)
  } catch (error) {
    const manifest = manifestOf(name, require)
    const why =
      manifest === undefined && codeOf(error) === 'MODULE_NOT_FOUND'
        ? 'is not installed'
        : `cannot be loaded${versionOf(manifest)} (${messageOf(error)})`
    const message = `${user} needs the package ${name}, which ${why}: ${installCommand(name)}`
    throw new FleetError('internal', message, { cause: error })
  }
}

/** Says `internal` of a version whose exports are not what `user` expects. */
export function unusablePackage(name: OptionalPackage, user: string): FleetError {
  return new FleetError('internal', `${user} cannot use the installed version of ${name}: ${installCommand(name)}`)
}

function versionOf(manifest: Readonly<Record<string, unknown>> | undefined): string {
  const { version, engines } = manifest ?? {}
  if (typeof version !== 'string') return ''
  const node = isObject(engines) && typeof engines['node'] === 'string' ? ` and needs Node ${engines['node']}` : ''
  return ` by Node ${process.versions.node}: the installed version is ${version}${node}`
}

/** The manifest of the installed version. Its `exports` may hide it from `require`. */
function manifestOf(name: string, require: NodeJS.Require): Readonly<Record<string, unknown>> | undefined {
  const files = (require.resolve.paths(name) ?? []).map((folder) => join(folder, name, 'package.json'))
  const file = files.find((path) => existsSync(path))
  if (file === undefined) return undefined
  const manifest: unknown = JSON.parse(readFileSync(file, 'utf8'))
  return isObject(manifest) ? manifest : undefined
}
