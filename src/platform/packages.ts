/** This package, which has files that are not code, and the packages that a host app installs only if it uses a feature that needs them. */
import { existsSync, readFileSync } from 'node:fs'
import * as modules from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { FleetError, messageOf } from '../contracts/errors.js'
import { isObject } from '../rules/validation/problem.js'
import { codeOf } from './files.js'

const packageName = 'gamekeeper'

/** Throws if this code is not in its package, because a bundler has made it part of an app. */
export function packageRoot(): string {
  const root = findRoot()
  if (root !== undefined) return root
  throw new Error(
    `the files of ${packageName} are not beside its code, which is part of a bundle: keep the package out of the bundle (external: ['${packageName}'])`,
  )
}

/** True if a bundler has made this code part of an app. */
export function isBundled(): boolean {
  return findRoot() === undefined
}

/** The file that this code is in, in both module formats. */
function ownFile(): string {
  try {
    // In ECMAScript modules this does not exist, although bundlers claim that its type is string.
    return __filename
  } catch {
    return fileURLToPath(import.meta.url)
  }
}

/** `require` from where this code is, in both module formats. Bundlers do not follow it. */
export function requireHere(): NodeJS.Require {
  return modules.createRequire(ownFile())
}

/** The built code is at another depth than the sources, so this looks for the manifest in the folders above. */
function findRoot(): string | undefined {
  const start = dirname(ownFile())
  for (let folder = start; ; folder = dirname(folder)) {
    if (manifestIn(folder)?.name === packageName) return folder
    if (dirname(folder) === folder) return undefined
  }
}

export function packageVersion(): string {
  return manifestIn(packageRoot())?.version ?? '0.0.0'
}

interface Manifest {
  readonly name?: string
  readonly version?: string
}

function manifestIn(folder: string): Manifest | undefined {
  let text: string
  try {
    text = readFileSync(join(folder, 'package.json'), 'utf8')
  } catch {
    return undefined
  }
  const manifest: Manifest = JSON.parse(text)
  return manifest
}

/** The newest major version of each that loads in every Node that gamekeeper supports. Newer ones may also be in its range. */
const majors = { '@kubernetes/client-node': 1, '@opentelemetry/api': 1, dockerode: 5, 'prom-client': 15 } as const

type OptionalPackage = keyof typeof majors

/** The command that installs it, as guides show it. */
function installCommand(name: OptionalPackage): string {
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
