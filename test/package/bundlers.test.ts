/** An app with the packed package, bundled by esbuild and webpack as docs/guides/embedding.md says, starts a match. */
import { execFile } from 'node:child_process'
import { mkdtemp, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { build } from 'esbuild'
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest'
import webpack from 'webpack'
import { copyWithDependencies, pack, unpack } from './consumer.js'

const exec = promisify(execFile)

const app = `
import { createFleet } from 'gamekeeper'
import { dashboardRoutes } from 'gamekeeper/dashboard'
import { processBackend } from 'gamekeeper/process'
import { start } from 'gamekeeper/sdk'

async function game() {
  const gsdk = await start()
  gsdk.onTerminate(() => process.exit(0))
  await gsdk.readyForPlayers()
}

async function host() {
  const fleet = await createFleet({ backend: processBackend({ directory: process.argv[2] }), agent: { port: 0 } })
  try {
    const run = { command: [process.execPath, process.argv[1], 'game'] }
    await fleet.builds.create({ metadata: { name: 'arena' }, spec: { buildID: 'arena', standingBy: 1, max: 1, run } })
    const { SessionID } = await fleet.allocate({ buildID: 'arena', sessionID: 'first' }, { waitMs: 30_000 })
    const page = await dashboardRoutes(fleet).fetch(new Request('http://127.0.0.1/'))
    console.log(SessionID, page.status)
  } finally {
    await fleet.drain({ active: 'terminate' })
    await fleet.close()
  }
}

void (process.argv[2] === 'game' ? game() : host())
`

let folder = ''
let count = 0

beforeAll(async () => {
  folder = await realpath(await mkdtemp(join(tmpdir(), 'gamekeeper-bundle-')))
  await unpack(await pack(folder), folder)
  await copyWithDependencies(folder, ['croner', 'eventemitter3', 'lmdb'])
  await writeFile(join(folder, 'app.mjs'), app)
}, 240_000)
afterAll(() => rm(folder, { recursive: true, force: true }))

type Bundle = (out: string, external: readonly string[]) => Promise<void>

const withEsbuild =
  (format: 'esm' | 'cjs'): Bundle =>
  async (outfile, external) => {
    const names = external.flatMap((name) => [name, `${name}/*`])
    const options = { bundle: true, platform: 'node', format, outfile, external: names, logLevel: 'error' } as const
    await build({ ...options, entryPoints: [join(folder, 'app.mjs')] })
  }

const withWebpack: Bundle = async (out, external) => {
  const compiler = webpack({
    ...{ mode: 'production', target: 'node20', context: folder, entry: './app.mjs' },
    externals: external.map((name) => new RegExp(`^${name}(/.*)?$`)),
    externalsType: 'module-import',
    experiments: { outputModule: true },
    output: { path: folder, filename: out.slice(folder.length + 1), module: true },
  })
  const stats = await promisify(compiler.run.bind(compiler))()
  expect(stats?.toString({ all: false, errors: true })).toBe('')
}

/** Bundles the app, and runs it. */
async function run(bundle: Bundle, external: readonly string[], ending = 'mjs') {
  const out = join(folder, `bundle-${++count}.${ending}`)
  await bundle(out, external)
  return exec(process.execPath, [out, join(folder, `data-${count}`)], { cwd: folder })
}

it.each([
  ['esbuild to ESM', withEsbuild('esm'), 'mjs'],
  ['esbuild to CommonJS', withEsbuild('cjs'), 'cjs'],
  ['webpack', withWebpack, 'mjs'],
] as const)('%s, which leaves the package out, makes an app that works', async (_, bundle, ending) => {
  expect((await run(bundle, ['gamekeeper'], ending)).stdout).toBe('first 200\n')
})

// Webpack remembers where the files of the package were.
it('webpack makes an app that works on the same machine', async () => {
  expect((await run(withWebpack, [])).stdout).toBe('first 200\n')
})

it('a bundle by esbuild that contains the package names the setting', async () => {
  await expect(run(withEsbuild('esm'), [])).rejects.toThrow(
    "the dashboard cannot be served: the files of gamekeeper are not beside its code, which is part of a bundle: keep the package out of the bundle (external: ['gamekeeper'])",
  )
})

it('a bundle without the package lmdb beside it says so', async () => {
  const elsewhere = await realpath(await mkdtemp(join(tmpdir(), 'gamekeeper-bundle-alone-')))
  onTestFinished(() => rm(elsewhere, { recursive: true }))
  const out = join(elsewhere, 'app.mjs')
  await withEsbuild('esm')(out, [])
  await expect(exec(process.execPath, [out, join(elsewhere, 'data')], { cwd: elsewhere })).rejects.toThrow(
    'This code is part of a bundle, beside which the package lmdb must be installed',
  )
})
