/** Finds the folder of this package, which contains files that are not code: its manifest, its examples, the dashboard's page. */
import { readFileSync } from 'node:fs'
import * as modules from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

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
