/** Compiles every program of every page in a project that has only the packed package, and parses all other text. */
import { execFile } from 'node:child_process'
import { mkdtemp, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { parseAllDocuments } from 'yaml'
import { link, pack, unpack } from './consumer.js'
import { allBlocks, type Block, pages } from './pages.js'

const exec = promisify(execFile)

/** The frameworks and optional peers that pages import, and the types of Node. */
const packages = [
  'typescript',
  '@types/node',
  'dockerode',
  '@types/dockerode',
  '@kubernetes/client-node',
  'prom-client',
  'express',
  '@types/express',
  '@nestjs/common',
  '@nestjs/core',
  '@nestjs/platform-express',
  'rxjs',
]

/** The variables that programs in the documentation may use without declaring them. */
const ambient: Readonly<Record<string, string>> = {
  fleet: `import('gamekeeper').Fleet`,
  gsdk: `import('gamekeeper/sdk').Gsdk`,
  announce: '(text: string) => void',
  request: `import('gamekeeper').AllocationRequest`,
  match: '{ readonly id: string; readonly players: readonly string[] }',
  signal: 'AbortSignal',
  buildID: 'string',
  sessionID: 'string',
  app: `import('express').Express`,
  isSignedIn: `(request: import('express').Request) => boolean`,
  headers: `import('node:http').IncomingHttpHeaders`,
  body: 'string',
  secret: 'string',
  conformanceOptions: `import('gamekeeper/testing').BackendConformanceOptions`,
  it: '(name: string, run: () => Promise<void>) => void',
  withMyChecks: `(fleet: import('gamekeeper').Fleet) => import('gamekeeper').Fleet`,
  retryLater: '() => void',
}

/** Without the generated pages, which quote the docstrings of Node's own types. */
const everything = pages.flatMap(allBlocks)
const languages = new Set(everything.map(({ language }) => language))
let folder: string

beforeAll(async () => {
  folder = await realpath(await mkdtemp(join(tmpdir(), 'gamekeeper-pages-')))
  await unpack(await pack(folder), folder)
  await link(folder, packages)
}, 240_000)

afterAll(async () => {
  await rm(folder, { recursive: true, force: true })
})

describe('the code blocks of all pages', () => {
  it('are in languages that a test reads', () => {
    const read = ['', 'text', 'ts', 'js', 'json', 'yaml', 'sh', 'mermaid', 'ini', 'dockerfile']
    expect([...languages].filter((language) => !read.includes(language))).toEqual([])
  })

  it('compile, if they are programs', { timeout: 240_000 }, async () => {
    const programs = everything.filter(({ language }) => language === 'ts' || language === 'js')
    expect(programs.length).toBeGreaterThan(30)
    const wrong = { page: 'wrong.md', line: 1, language: 'ts', text: 'fleet.nothing()\n' }
    const errors = await typeErrors([...programs, wrong])
    // The one that is wrong shows that errors are found.
    expect(errors).toEqual([expect.stringMatching(/^wrong\.md:1: .*'nothing' does not exist/)])
  })

  it.each(everything.filter(({ language }) => language === 'json'))('parse as JSON: $page:$line', ({ text }) => {
    expect(() => JSON.parse(text)).not.toThrow()
  })

  it.each(everything.filter(({ language }) => language === 'yaml'))('parse as YAML: $page:$line', ({ text }) => {
    expect(parseAllDocuments(text).flatMap(({ errors }) => errors)).toEqual([])
  })
})

/** Compiles the programs as modules of the project. Returns the errors of the compiler with their places on the pages. */
async function typeErrors(programs: readonly Block[]): Promise<readonly string[]> {
  const files = new Map(programs.map((block, index) => [`program-${index}${extensionOf(block)}`, block]))
  for (const [file, { text, language }] of files) {
    await writeFile(join(folder, file), language === 'ts' ? asModule(text) : `// @ts-check\n${text}`)
  }
  const options = ['--strict', '--noEmit', '--allowJs', '--skipLibCheck', '--pretty', 'false', '--types', 'node']
  const decorators = ['--experimentalDecorators', '--emitDecoratorMetadata']
  const target = ['--target', 'es2022', '--lib', 'es2023', '--module', 'nodenext', '--noUncheckedIndexedAccess']
  const tsc = ['node_modules/typescript/bin/tsc', ...options, ...decorators, ...target, ...files.keys()]
  const { stdout } = await exec(process.execPath, tsc, { cwd: folder }).catch(
    (error: { readonly stdout: string }) => error, // tsc found errors
  )
  return [...stdout.matchAll(/^(program-\d+\.\w+)\((\d+),\d+\): (.*)$/gm)].map(([, file = '', line, message]) => {
    const block = files.get(file)
    return `${block?.page}:${(block?.line ?? 0) + Number(line) - 2}: ${message}`
  })
}

function extensionOf({ language, text }: Block): string {
  if (language === 'ts') return '.mts'
  return /\brequire\(/.test(text) ? '.cjs' : '.mjs'
}

/** All declarations are on one line, so that the lines of the program keep their distance. */
function asModule(text: string): string {
  const declarations = Object.entries(ambient)
    .filter(([name]) => !new RegExp(`(const|import) \\{?.*\\b${name}\\b.* (=|from) `).test(text))
    .map(([name, type]) => `declare const ${name}: ${type}`)
  return `${declarations.join(';')}\n${text}\nexport {}\n`
}
