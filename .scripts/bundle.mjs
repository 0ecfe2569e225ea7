/**
 * `npm run bundle`: builds the content of the bundled server's image: one file for the server and its dependencies, and one
 * for each package that the server loads at run time. Requires `npm run build` first.
 */
import { rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'

const root = fileURLToPath(new URL('..', import.meta.url))
const folder = join(root, 'dist', '.server')
/** Optional peer dependencies that the image includes. */
const packages = ['@kubernetes/client-node', 'prom-client']

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

// The bundle keeps the path of the source file, because the server locates its own files relative to itself.
const server = join(folder, 'examples', 'server', 'main.mjs')
await build({
  ...common,
  entryPoints: [join(root, 'examples', 'server', 'main.ts')],
  outfile: server,
  format: 'esm',
  // Native binaries for stores and backends that the image does not use.
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
