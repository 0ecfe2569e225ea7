/** Finds the folder of this package, which contains files that are not code: its manifest, its examples, the dashboard's page. */
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const packageName = 'gamekeeper'

/** The built code is at another depth than the sources, so this looks for the manifest in the folders above. */
export function packageRoot(): string {
  // `__filename` exists only in the CommonJS build.
  const start = dirname(typeof __filename === 'string' ? __filename : fileURLToPath(import.meta.url))
  for (let folder = start; ; folder = dirname(folder)) {
    if (manifestIn(folder)?.name === packageName) return folder
    if (dirname(folder) === folder) throw new Error(`no folder above ${start} has the package.json of ${packageName}`)
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
