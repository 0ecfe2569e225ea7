/**
 * Makes what the image of the bundled server holds: the server with all that it needs in one file, and beside it each package
 * that it looks for only when it runs, in one file each. Nothing else. Not published. Run by `npm run bundle`, after the build.
 */
import { rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'

const root = fileURLToPath(new URL('..', import.meta.url))
const folder = join(root, 'dist', '.server')
/** Optional to users of the library, and wanted here. */
const packages = ['@kubernetes/client-node', 'prom-client']

await rm(folder, { recursive: true, force: true })
// The package has no side effects, as it says itself.
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

// Files of its own are found from where the server lies: it keeps its place below the root.
const server = join(folder, 'examples', 'server', 'main.mjs')
await build({
  ...common,
  entryPoints: [join(root, 'examples', 'server', 'main.ts')],
  outfile: server,
  format: 'esm',
  // Binaries of the machine, for stores and engines that are none of this image's.
  external: ['lmdb', 'dockerode'],
})
for (const name of packages) {
  const home = join(folder, 'node_modules', name)
  await build({
    ...common,
    entryPoints: [name],
    absWorkingDir: root,
    outfile: join(home, 'index.cjs'),
    format: 'cjs',
    minify: true,
  })
  await writeFile(join(home, 'package.json'), JSON.stringify({ name, main: 'index.cjs' }))
}
console.log(`bundled ${dirname(server)}`)
