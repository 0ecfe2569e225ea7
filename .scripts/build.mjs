/**
 * Builds dist with tsup, unless dist is up to date. `--js` skips the type declarations, which makes the build faster. Writes
 * only to dist and renames each finished file into place, so that a concurrent import never finds a missing or partial file.
 */
import { createHash } from 'node:crypto'
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, join, relative, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { buildPage } from './page.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))
const dist = join(root, 'dist')
const inputs = [
  'src',
  'adapters',
  '.scripts/build.mjs',
  '.scripts/page.mjs',
  'package.json',
  'package-lock.json',
  'tsconfig.json',
]

/** One entry per subpath of `exports` in package.json. The command `gamekeeper` is another one, as ESM only. */
const entry = ['src', 'src/client', 'src/dashboard', 'src/http', 'src/metrics', 'src/sdk', 'src/testing', 'src/tracing']
  .concat(['memory', 'process', 'docker', 'kubernetes'].map((name) => `adapters/${name}`))
  .map((folder) => `${folder}/index.ts`)

/** @typedef {{ readonly name: 'code' | 'page' | 'types', readonly owns: (file: string) => boolean, readonly builds?: readonly import('tsup').Options[], readonly make?: (outDir: string) => Promise<void> }} Part */

/** @type {Part} */
const code = {
  name: 'code',
  owns: (file) => /\.c?js$/.test(file) && !page.owns(file),
  // Without this, esbuild would turn `import()` in the CommonJS build into `require()`.
  builds: [
    { format: 'esm', target: 'node20.19', splitting: true, entry: [...entry, 'src/cli/main.ts'] },
    { format: 'cjs', target: 'node20.19', splitting: false },
  ],
}
/** The dashboard's page, for browsers. @type {Part} */
const page = {
  name: 'page',
  owns: (file) => file.startsWith(`page${sep}`),
  make: (outDir) => buildPage(join(outDir, 'page')),
}
/** @type {Part} */
const types = {
  name: 'types',
  owns: (file) => /\.d\.c?ts$/.test(file),
  builds: [{ format: ['esm', 'cjs'], dts: { only: true } }],
}

/** The file that stores the fingerprint of a part's sources. Not published. @param {Part} part */
const stampOf = (part) => join(dist, `.${part.name}`)

process.chdir(root)
await build(process.argv.includes('--js') ? [code, page] : [code, page, types])

/** @param {readonly Part[]} parts */
async function build(parts) {
  const sources = await fingerprint()
  const made = await Promise.all(parts.map((part) => readFile(stampOf(part), 'utf8').catch(() => 'nothing yet')))
  const stale = parts.filter((_, index) => made[index] !== sources)
  if (stale.length === 0) return
  const startedAt = performance.now()
  const results = await Promise.allSettled(stale.map((part) => buildPart(part, sources)))
  const failures = results.flatMap((result) => (result.status === 'rejected' ? [result.reason] : []))
  for (const failure of failures) console.error(failure instanceof Error ? failure.message : failure)
  if (failures.length > 0) process.exit(1)
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(1)
  console.log(`built dist (${stale.map((part) => part.name).join(', ')}) in ${seconds} s`)
}

/**
 * @param {Part} part
 * @param {string} sources
 */
async function buildPart(part, sources) {
  const next = join(dist, `.next-${part.name}-${process.pid}`)
  try {
    const { builds = [], make } = part
    if (make) await make(next)
    else {
      const tsup = await import('tsup')
      const outDir = relative(root, next)
      await Promise.all(builds.map((options) => tsup.build({ entry, ...options, config: false, silent: true, outDir })))
    }
    await replace(next, part)
    await writeFile(stampOf(part), sources)
  } finally {
    await rm(next, { recursive: true, force: true })
  }
}

/**
 * Moves every file of `next` into dist, then deletes outdated files.
 * @param {string} next
 * @param {Part} part
 */
async function replace(next, part) {
  const made = (await filesUnder(next)).map((file) => relative(next, file))
  for (const file of made) {
    await mkdir(dirname(join(dist, file)), { recursive: true })
    await rename(join(next, file), join(dist, file))
  }
  const visible = (await readdir(dist)).filter((name) => !name.startsWith('.'))
  const present = (await Promise.all(visible.map((name) => filesUnder(join(dist, name))))).flat()
  const leftOver = present.map((file) => relative(dist, file)).filter((file) => part.owns(file) && !made.includes(file))
  await Promise.all(leftOver.map((file) => rm(join(dist, file), { force: true })))
}

async function fingerprint() {
  const hash = createHash('sha256')
  const files = (await Promise.all(inputs.map((input) => filesUnder(join(root, input))))).flat().toSorted()
  for (const file of files)
    hash
      .update(`${relative(root, file)}\0`)
      .update(await readFile(file))
      .update('\0')
  return hash.digest('hex')
}

/**
 * @param {string} path
 * @returns {Promise<string[]>}
 */
async function filesUnder(path) {
  const entries = await readdir(path, {
    withFileTypes: true,
    recursive: true,
  }).catch((error) => {
    if (error.code === 'ENOTDIR') return undefined
    throw error
  })
  if (entries === undefined) return [path]
  return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name))
}
