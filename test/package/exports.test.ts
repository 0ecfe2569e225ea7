/** Tests the published package: packs it with npm, installs it with its dependencies, and uses it from ESM, CommonJS and tsc. */
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, readFile, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, posix } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import ts from 'typescript'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { link, pack, unpack } from './consumer.js'
import { links, pages } from './pages.js'
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
  './dashboard',
  './metrics',
  './sdk',
  './testing',
  './tracing',
]
const specifiers = subpaths.map((path) => path.replace('.', 'gamekeeper'))
interface Targets {
  readonly import: { readonly types: string }
  readonly require: { readonly types: string }
}
const missing: Targets = { import: { types: '' }, require: { types: '' } }
const manifest: {
  readonly version: string
  readonly bin: { readonly gamekeeper: string; readonly 'kubectl-gamekeeper': string }
  readonly exports: Readonly<Record<string, Targets>>
  readonly dependencies: object
  readonly homepage: string
  readonly bugs: object
  readonly repository: { readonly url: string }
} = JSON.parse(read('package.json'))
const dependencies = Object.keys(manifest.dependencies)

let temporary: string
let archive: string
/** The folder of a consumer that has every dependency. */
let full: string

beforeAll(async () => {
  temporary = await realpath(await mkdtemp(join(tmpdir(), 'gamekeeper-exports-')))
  archive = await pack(temporary)
  full = await consumer('full', dependencies)
}, 300_000)

afterAll(async () => {
  await rm(temporary, { recursive: true, force: true })
})

describe.concurrent('the package', { timeout: 300_000 }, () => {
  it('exports the tested subpaths and package.json', () => {
    expect(Object.keys(manifest.exports)).toEqual([...subpaths, './package.json'])
  })

  it('has a command that runs from the archive: it finds its version and its examples', async () => {
    const command = join(full, 'node_modules/gamekeeper', manifest.bin.gamekeeper)
    // As npm links it: executable, with the interpreter in its first line.
    expect((await exec(command, ['--version'], { cwd: full })).stdout).toBe(`${manifest.version}\n`)
    await exec(command, ['init', 'arena'], { cwd: full })
    const project = join(full, 'arena')
    expect(await readdir(project)).toEqual(expect.arrayContaining(['game.mjs', 'host.mjs', 'package.json']))
    await exec(process.execPath, ['--test'], { cwd: project })
    const ports = { ALLOCATION_PORT: '0', MANAGEMENT_PORT: '0', PORT_RANGE: '30420-30429' }
    const dev = spawn(command, ['dev', '--json'], { cwd: project, env: { ...process.env, ...ports } })
    const ended = once(dev, 'exit')
    for await (const line of createInterface({ input: dev.stdout })) {
      if (line.includes('"type":"allocated"')) dev.kill('SIGINT')
    }
    expect(await ended).toEqual([0, null])
  })

  it('has a second name for its command, by which kubectl finds it as a plugin', async () => {
    const plugin = join(full, 'node_modules/gamekeeper', manifest.bin['kubectl-gamekeeper'])
    expect((await exec(plugin, ['--version'], { cwd: full })).stdout).toBe(`${manifest.version}\n`)
  })

  it.each(['esm', 'cjs'] as const)('has the dashboard, which finds its page from %s', async (format) => {
    const load = { esm: `await import('gamekeeper/dashboard')`, cjs: `require('gamekeeper/dashboard')` }[format]
    const program = `
      (async () => {
        const { dashboardRoutes } = ${load}
        const routes = dashboardRoutes({ builds: {}, servers: {}, details: {}, allocate() {} })
        const page = await routes.fetch(new Request('http://localhost/'))
        console.log(page.status, (await page.text()).includes('dashboard/app.js'))
      })()`
    expect(await run(full, format, program)).toBe('200 true')
  })

  it('has a server that runs from the archive, without the optional packages', async () => {
    const home = await consumer('serve', dependencies)
    const command = join(home, 'node_modules/gamekeeper', manifest.bin.gamekeeper)
    const args = ['serve', '--allocation-port', '0', '--management-port', '0', '--agent-port', '0']
    const serve = spawn(command, [...args, '--sample', 'off'], { cwd: home })
    const ended = once(serve, 'exit')
    const lines: { readonly level: string; readonly message: string }[] = []
    for await (const line of createInterface({ input: serve.stdout })) {
      lines.push(JSON.parse(line))
      if (line.includes('"message":"ready"')) serve.kill('SIGTERM')
    }
    expect(await ended).toEqual([0, null])
    const why =
      'GET /metrics is not served: fleetMetrics needs the package prom-client, which is not installed: npm install prom-client@15'
    expect(lines.filter(({ level }) => level !== 'info')).toEqual([
      { level: 'warn', time: expect.any(String), message: why },
    ])
  })

  it.each(specifiers)('exports the same names to ESM and CommonJS from %s', async (specifier) => {
    const esm = await run(full, 'esm', `console.log(JSON.stringify(Object.keys(await import('${specifier}'))))`)
    const cjs = await run(full, 'cjs', `console.log(JSON.stringify(Object.keys(require('${specifier}')).sort()))`)
    expect(esm).toEqual(cjs)
    expect(JSON.parse(esm)).not.toEqual([])
    expect(JSON.parse(esm)).not.toContain('default')
  })

  it.each(specifiers)('has every value at run time that its types declare in %s', async (specifier) => {
    const { import: esm, require: cjs } = manifest.exports[specifier.replace('gamekeeper', '.')] ?? missing
    const names = await run(full, 'esm', `console.log(JSON.stringify(Object.keys(await import('${specifier}'))))`)
    for (const { types } of [esm, cjs]) {
      expect(declaredValues(join(full, 'node_modules/gamekeeper', types)), types).toEqual(JSON.parse(names))
    }
  })

  it('keeps what only its own parts use to itself', async () => {
    const { types } = (manifest.exports['.'] ?? missing).import
    const names = exportedNames(join(full, 'node_modules/gamekeeper', types)).map(({ name }) => name)
    const internal = ['keyOf', 'draftOf', 'ServerDraft', 'SeatHold', 'ReplaceLost', 'Candidacy', 'RequestedAllocation']
    expect(names.filter((name) => internal.includes(name))).toEqual([])
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
    ['gamekeeper', ['croner', 'eventemitter3']],
    ['gamekeeper/memory', ['eventemitter3']],
    ['gamekeeper/process', ['eventemitter3']],
    ['gamekeeper/docker', ['eventemitter3']],
    ['gamekeeper/http', ['croner']],
    ['gamekeeper/client', []],
    ['gamekeeper/dashboard', ['croner']],
    ['gamekeeper/metrics', []],
    ['gamekeeper/kubernetes', ['croner', 'eventemitter3']],
    ['gamekeeper/sdk', []],
    ['gamekeeper/tracing', []],
  ])('loads only these dependencies from %s: %j', async (specifier, needed) => {
    const bare = await consumer(`bare-${specifier.replace('/', '-')}`, needed)
    const load = `console.log(typeof (await import('${specifier}')))`
    expect(await run(bare, 'esm', load)).toBe('object')
    expect(await run(bare, 'cjs', `console.log(typeof require('${specifier}'))`)).toBe('object')
  })

  it('reports a missing dependency by name', async () => {
    const bare = await consumer('without-eventemitter3', ['croner', 'lmdb'])
    await expect(run(bare, 'esm', `await import('gamekeeper')`)).rejects.toThrow(/Cannot find package 'eventemitter3/)
  })

  it('reports what to install when dockerode is missing', async () => {
    const bare = await consumer('without-dockerode', ['eventemitter3'])
    const make = `try { dockerBackend() } catch (error) { console.log(error.name, error.code, error.message) }`
    const message =
      'FleetError internal dockerBackend needs the package dockerode, which is not installed: npm install dockerode@5'
    expect(await run(bare, 'esm', `import { dockerBackend } from 'gamekeeper/docker'; ${make}`)).toBe(message)
    expect(await run(bare, 'cjs', `const { dockerBackend } = require('gamekeeper/docker'); ${make}`)).toBe(message)
  })

  it('reports what to install when prom-client is missing, and loads it if installed', async () => {
    const make = `try { console.log(typeof fleetMetrics({ observe() {}, on() {}, stats() {}, health() {}, problems() {} }).text) } catch (error) { console.log(error.message) }`
    const bare = await consumer('without-prom-client', [])
    const home = await consumer('with-prom-client', ['prom-client'])
    const message = 'fleetMetrics needs the package prom-client, which is not installed: npm install prom-client@15'
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
    const bare = await consumer('without-client-node', ['croner', 'eventemitter3'])
    const make = `try { kubernetesBackend() } catch (error) { console.log(error.name, error.code, error.message) }`
    const message =
      'FleetError internal kubernetesBackend needs the package @kubernetes/client-node, which is not installed: npm install @kubernetes/client-node@1'
    expect(await run(bare, 'esm', `import { kubernetesBackend } from 'gamekeeper/kubernetes'; ${make}`)).toBe(message)
    expect(await run(bare, 'cjs', `const { kubernetesBackend } = require('gamekeeper/kubernetes'); ${make}`)).toBe(
      message,
    )
  })

  it('says what failed of an installed package that this Node cannot load, and which version it can', async () => {
    const home = await consumer('with-another-node', ['croner'])
    const folder = join(home, 'node_modules/@kubernetes/client-node')
    await mkdir(folder, { recursive: true })
    const other = { name: '@kubernetes/client-node', version: '2.0.1', engines: { node: '>=99' }, main: 'index.js' }
    await writeFile(join(folder, 'package.json'), JSON.stringify(other))
    await writeFile(join(folder, 'index.js'), 'undefined.bind')
    const make = `try { kubernetesBackend() } catch (error) { console.log(error.message) }`
    const said = await run(home, 'esm', `import { kubernetesBackend } from 'gamekeeper/kubernetes'; ${make}`)
    expect(said).toBe(
      `kubernetesBackend needs the package @kubernetes/client-node, which cannot be loaded by Node ${process.versions.node}: the installed version is 2.0.1 and needs Node >=99 (Cannot read properties of undefined (reading 'bind')): npm install @kubernetes/client-node@1`,
    )
  })

  it('contains only the files that node, tsc, kubectl and readers need', async () => {
    const home = join(full, 'node_modules/gamekeeper')
    const files = await filesOf(home)
    const expected =
      /^(package\.json|(README|CHANGELOG|CONTRIBUTING|SECURITY)\.md|LICENSE|adapters\/kubernetes\/crds\.yaml|dist\/[\w/-]+\.(c?js|d\.c?ts)|dist\/page\/(index\.html|icon\.svg|(app\.js|app\.css|licences\.txt)(\.br|\.gz)?)|dist\/api\/[\w.]+\.md|(docs|examples)\/.*)$/
    expect(files.filter((file) => !expected.test(file))).toEqual([])
    const texts = await Promise.all(files.map((file) => readFile(join(home, file), 'utf8')))
    expect(files.filter((_, index) => texts[index]?.includes(root))).toEqual([])
  })

  it('contains every file that its pages link to', () => {
    const home = join(full, 'node_modules/gamekeeper')
    const missing = pages.flatMap((page) =>
      links(page)
        .map((target) => posix.join(posix.dirname(page), target.split('#')[0] ?? ''))
        .filter((file) => !existsSync(join(home, file)))
        .map((file) => `${page}: ${file}`),
    )
    expect(missing).toEqual([])
  })

  it('names a public repository, against which a registry resolves the relative links of the README', () => {
    const { repository, homepage, bugs } = manifest
    const [, url] = /^git\+(https:\/\/github\.com\/[\w-]+\/gamekeeper)\.git$/.exec(repository.url) ?? []
    expect({ homepage, bugs }).toEqual({ homepage: `${url}#readme`, bugs: { url: `${url}/issues` } })
  })

  it.each([
    ['node16', 'node16', ['index.mts', 'index.cts']],
    ['esnext', 'bundler', ['index.mts']],
    ['commonjs', 'node10', ['index.ts']],
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

/** What a declaration file exports, and whether it is a value or only a type. */
function exportedNames(file: string): readonly { readonly name: string; readonly isValue: boolean }[] {
  const program = ts.createProgram([file], {
    skipLibCheck: true,
    noLib: true,
    moduleResolution: ts.ModuleResolutionKind.Node16,
    module: ts.ModuleKind.Node16,
  })
  const checker = program.getTypeChecker()
  const source = program.getSourceFile(file)
  const module = source && checker.getSymbolAtLocation(source)
  if (!module) throw new Error(`${file} is no module`)
  return checker.getExportsOfModule(module).map((symbol) => {
    const isAlias = (symbol.flags & ts.SymbolFlags.Alias) !== 0
    const isTypeOnly = symbol.declarations?.some(
      (one) => ts.isExportSpecifier(one) && (one.isTypeOnly || one.parent.parent.isTypeOnly),
    )
    const { flags } = isAlias ? checker.getAliasedSymbol(symbol) : symbol
    return { name: symbol.name, isValue: isTypeOnly !== true && (flags & ts.SymbolFlags.Value) !== 0 }
  })
}

const declaredValues = (file: string) =>
  exportedNames(file)
    .flatMap(({ name, isValue }) => (isValue ? [name] : []))
    .toSorted()

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
  await unpack(archive, folder)
  await link(folder, [...available, '@types/node'])
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
