/** Tests the published package: packs it with npm, installs it with its dependencies, and uses it from ESM, CommonJS and tsc. */
import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readdir, readFile, realpath, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { read, root } from './sources.js'

const exec = promisify(execFile)

const subpaths = [
  '.',
  './memory',
  './process',
  './docker',
  './kubernetes',
  './http',
  './client',
  './metrics',
  './sdk',
  './testing',
]
const specifiers = subpaths.map((path) => path.replace('.', 'gamekeeper'))
const manifest: { readonly exports: object; readonly dependencies: object } = JSON.parse(read('package.json'))
const dependencies = Object.keys(manifest.dependencies)

let temporary: string
/** The folder of a consumer that has every dependency. */
let full: string

beforeAll(async () => {
  temporary = await realpath(await mkdtemp(join(tmpdir(), 'gamekeeper-exports-')))
  await exec(process.execPath, [join(root, '.scripts/build.mjs')])
  await exec('npm', ['pack', '--ignore-scripts', '--pack-destination', temporary], { cwd: root })
  full = await consumer('full', dependencies)
}, 120_000)

afterAll(async () => {
  await rm(temporary, { recursive: true, force: true })
})

describe.concurrent('the package', { timeout: 120_000 }, () => {
  it('exports the tested subpaths and package.json', () => {
    expect(Object.keys(manifest.exports)).toEqual([...subpaths, './package.json'])
  })

  it.each(specifiers)('exports the same names to ESM and CommonJS from %s', async (specifier) => {
    const esm = await run(full, 'esm', `console.log(JSON.stringify(Object.keys(await import('${specifier}'))))`)
    const cjs = await run(full, 'cjs', `console.log(JSON.stringify(Object.keys(require('${specifier}')).sort()))`)
    expect(esm).toEqual(cjs)
    expect(JSON.parse(esm)).not.toEqual([])
    expect(JSON.parse(esm)).not.toContain('default')
  })

  it('recognizes a FleetError of the other module format', async () => {
    const program = `
      import { createRequire } from 'node:module'
      import { FleetError as Esm } from 'gamekeeper'
      const { FleetError: Cjs } = createRequire(import.meta.url)('gamekeeper')
      const checks = (type, error) => [type.is(error), type.is(error, 'invalid'), type.is(error, 'closed')]
      console.log(Esm === Cjs, ...checks(Esm, new Cjs('invalid', 'x')), ...checks(Cjs, new Esm('invalid', 'x')))`
    expect(await run(full, 'esm', program)).toBe('false true true false true true false')
  })

  it.each([
    ['gamekeeper', ['eventemitter3']],
    ['gamekeeper/memory', ['eventemitter3']],
    ['gamekeeper/process', ['eventemitter3']],
    ['gamekeeper/docker', ['eventemitter3']],
    ['gamekeeper/http', []],
    ['gamekeeper/client', []],
    ['gamekeeper/metrics', []],
    ['gamekeeper/kubernetes', ['eventemitter3']],
    ['gamekeeper/sdk', []],
  ])('loads only these dependencies from %s: %j', async (specifier, needed) => {
    const bare = await consumer(`bare-${specifier.replace('/', '-')}`, needed)
    const load = `console.log(typeof (await import('${specifier}')))`
    expect(await run(bare, 'esm', load)).toBe('object')
    expect(await run(bare, 'cjs', `console.log(typeof require('${specifier}'))`)).toBe('object')
  })

  it('reports a missing dependency by name', async () => {
    const bare = await consumer('without-eventemitter3', ['lmdb'])
    await expect(run(bare, 'esm', `await import('gamekeeper')`)).rejects.toThrow(/Cannot find package 'eventemitter3/)
  })

  it('reports what to install when dockerode is missing', async () => {
    const bare = await consumer('without-dockerode', ['eventemitter3'])
    const make = `try { dockerBackend() } catch (error) { console.log(error.name, error.code, error.message) }`
    const message =
      'FleetError internal dockerBackend needs the package dockerode, which is not installed: npm install dockerode'
    expect(await run(bare, 'esm', `import { dockerBackend } from 'gamekeeper/docker'; ${make}`)).toBe(message)
    expect(await run(bare, 'cjs', `const { dockerBackend } = require('gamekeeper/docker'); ${make}`)).toBe(message)
  })

  it('reports what to install when prom-client is missing, and loads it if installed', async () => {
    const make = `try { console.log(typeof fleetMetrics({ observe() {}, on() {} }).text) } catch (error) { console.log(error.message) }`
    const bare = await consumer('without-prom-client', [])
    const home = await consumer('with-prom-client', ['prom-client'])
    const message = 'fleetMetrics needs the package prom-client, which is not installed: npm install prom-client'
    for (const [folder, expected] of [
      [bare, message],
      [home, 'function'],
    ] as const) {
      expect(await run(folder, 'esm', `import { fleetMetrics } from 'gamekeeper/metrics'; ${make}`)).toBe(expected)
      expect(await run(folder, 'cjs', `const { fleetMetrics } = require('gamekeeper/metrics'); ${make}`)).toBe(expected)
    }
  })

  it('loads dockerode if installed', async () => {
    const home = await consumer('with-dockerode', ['eventemitter3', 'dockerode'])
    expect(await run(home, 'esm', `console.log((await import('gamekeeper/docker')).dockerBackend().name)`)).toBe(
      'docker',
    )
    expect(await run(home, 'cjs', `console.log(require('gamekeeper/docker').dockerBackend().name)`)).toBe('docker')
  })

  it('reports what to install when @kubernetes/client-node is missing', async () => {
    const bare = await consumer('without-client-node', ['eventemitter3'])
    const make = `try { kubernetesBackend() } catch (error) { console.log(error.name, error.code, error.message) }`
    const message =
      'FleetError internal kubernetesBackend needs the package @kubernetes/client-node, which is not installed: npm install @kubernetes/client-node'
    expect(await run(bare, 'esm', `import { kubernetesBackend } from 'gamekeeper/kubernetes'; ${make}`)).toBe(message)
    expect(await run(bare, 'cjs', `const { kubernetesBackend } = require('gamekeeper/kubernetes'); ${make}`)).toBe(
      message,
    )
  })

  it('contains only the files that node, tsc and kubectl need', async () => {
    const home = join(full, 'node_modules/gamekeeper')
    const files = await filesOf(home)
    const expected =
      /^(package\.json|README\.md|CHANGELOG\.md|LICENSE|adapters\/kubernetes\/crds\.yaml|dist\/[\w/-]+\.(c?js|d\.c?ts))$/
    expect(files.filter((file) => !expected.test(file))).toEqual([])
    const texts = await Promise.all(files.map((file) => readFile(join(home, file), 'utf8')))
    expect(files.filter((_, index) => texts[index]?.includes(root))).toEqual([])
  })

  it.each([
    ['node16', 'node16', ['index.mts', 'index.cts']],
    ['esnext', 'bundler', ['index.mts']],
  ])('has complete types for module %s, moduleResolution %s in %j', async (module, moduleResolution, files) => {
    const home = await consumer(`types-${moduleResolution}`, dependencies)
    await Promise.all(files.map((file) => writeFile(join(home, file), consumerSource)))
    const strict = [
      '--strict',
      '--noEmit',
      '--target',
      'es2022',
      '--lib',
      'es2023',
      '--types',
      'node',
      '--pretty',
      'false',
    ]
    const settings = ['--skipLibCheck', 'false', '--module', module, '--moduleResolution', moduleResolution]
    const tsc = join(root, 'node_modules/typescript/bin/tsc')
    const { stdout } = await exec(process.execPath, [tsc, ...strict, ...settings, ...files], { cwd: home }).catch(
      (error: { readonly stdout: string }) => error, // tsc found errors, which are filtered below
    )
    // Ignores errors in the types of dependencies.
    expect(stdout.split('\n').filter((line) => /^(index\.|node_modules\/gamekeeper\/|error )/.test(line))).toEqual([])
  })
})

const consumerSource = `
${specifiers.map((specifier, index) => `import * as part${index} from '${specifier}'`).join('\n')}
import { FleetError, type ErrorCode } from 'gamekeeper'
export const parts: readonly object[] = [${specifiers.map((_, index) => `part${index}`).join(', ')}]
export function codeOf(error: unknown): ErrorCode | undefined {
  return FleetError.is(error) ? error.code : undefined
}
// @ts-expect-error: an unknown code does not compile
export const unknown = new FleetError('no such code', 'x')
`

/** Creates a folder with the packed package and only these dependencies in node_modules. */
async function consumer(name: string, available: readonly string[]): Promise<string> {
  const folder = join(temporary, name)
  const home = join(folder, 'node_modules/gamekeeper')
  await mkdir(home, { recursive: true })
  const archive = (await readdir(temporary)).find((file) => file.endsWith('.tgz')) ?? '(no archive from npm pack)'
  await exec('tar', ['-xzf', join(temporary, archive), '--strip-components=1', '-C', home])
  for (const dependency of [...available, '@types/node']) {
    const link = join(folder, 'node_modules', dependency)
    await mkdir(dirname(link), { recursive: true })
    await symlink(await realpath(join(root, 'node_modules', dependency)), link, 'junction')
  }
  return folder
}

/** Runs a program and returns its output. */
async function run(folder: string, format: 'esm' | 'cjs', program: string): Promise<string> {
  const type = format === 'esm' ? 'module' : 'commonjs'
  const { stdout } = await exec(process.execPath, [`--input-type=${type}`, '--eval', program], { cwd: folder })
  return stdout.trim()
}

async function filesOf(folder: string): Promise<readonly string[]> {
  const entries = await readdir(folder, { withFileTypes: true, recursive: true })
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1))
}
