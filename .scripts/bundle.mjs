/**
 * `npm run bundle`: builds the content of the bundled server's image: one file for the server and its dependencies, and one
 * for each package that the server loads at run time. Requires `npm run build` first.
 */
import { cp, readFile, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'

const root = fileURLToPath(new URL('..', import.meta.url))
const folder = join(root, 'dist', '.server')
/** Optional peer dependencies that the image includes. */
const packages = ['@kubernetes/client-node', 'prom-client', 'dockerode']

await rm(folder, { recursive: true, force: true })
// package.json declares that the package has no side effects, so esbuild warns about bare imports.
const logOverride = /** @type {const} */ ({ 'ignored-bare-import': 'silent' })
/** @type {import('esbuild').BuildOptions} */
const common = {
  bundle: true,
  platform: 'node',
  target: 'node20',
  logLevel: 'warning',
  logOverride,
  legalComments: 'none',
}

const server = join(folder, 'gamekeeper.mjs')
await build({
  ...common,
  entryPoints: [join(root, 'src', 'cli', 'main.ts')],
  outfile: server,
  format: 'esm',
  external: ['lmdb', 'dockerode'],
  // For CommonJS packages in the bundle.
  banner: {
    js: "import { createRequire as requireFrom } from 'node:module'; const require = requireFrom(import.meta.url);",
  },
})
// The dashboard's page.
await cp(join(root, 'dist', 'page'), join(folder, 'page'), { recursive: true })
for (const name of packages) {
  const home = join(folder, 'node_modules', name)
  await build({
    ...common,
    entryPoints: [name],
    absWorkingDir: root,
    outfile: join(home, 'index.cjs'),
    format: 'cjs',
    minify: true,
    // Optional accelerators of ssh2.
    external: ['cpu-features', '*.node'],
  })
  await writeFile(join(home, 'package.json'), JSON.stringify({ name, main: 'index.cjs' }))
}
await copyWithDependencies('lmdb')
console.log(`bundled ${dirname(server)}`)

/**
 * Copies a package with a native binary as it is installed, for the platform that this runs on.
 *
 * @param {string} name
 */
async function copyWithDependencies(name) {
  const from = join(root, 'node_modules', name)
  /** @type {string} */
  let text
  try {
    text = await readFile(join(from, 'package.json'), 'utf8')
  } catch {
    return // An optional dependency for another platform.
  }
  await cp(from, join(folder, 'node_modules', name), { recursive: true, dereference: true })
  const { dependencies = {}, optionalDependencies = {} } = JSON.parse(text)
  for (const next of Object.keys({ ...dependencies, ...optionalDependencies })) await copyWithDependencies(next)
}
