/** Checks the documentation as a whole: links resolve, programs compile, and paths exist. */
import { existsSync } from 'node:fs'
import { join, posix } from 'node:path'
import ts from 'typescript'
import { describe, expect, it } from 'vitest'
import { anchors, blocks, links, pages } from './pages.js'
import { filesUnder, read, root } from './sources.js'

describe('links', () => {
  it.each(pages)('in %s point to a file and a heading that exist', (page) => {
    for (const target of links(page)) {
      const [path = '', anchor] = target.split('#')
      const file = path === '' ? page : posix.join(posix.dirname(page), path)
      expect(existsSync(join(root, file)), `${page}: ${target}`).toBe(true)
      if (anchor !== undefined) expect(anchors(file), `${page}: ${target}`).toContain(anchor)
    }
  })

  it('from sources and tests to pages point to files that exist', () => {
    const sources = [...filesUnder('src', 'adapters', 'examples', 'test', '.scripts'), 'package.json']
    const missing = sources.flatMap((file) =>
      [...read(file).matchAll(/\bdocs\/[\w/-]+\.(?:md|json)\b/g)]
        .filter(([path]) => !existsSync(join(root, path)))
        .map(([path]) => `${file}: ${path}`),
    )
    expect(missing).toEqual([])
  })
})

describe('programs', () => {
  it('on all pages compile', { timeout: 240_000 }, () => {
    expect(typeErrors(pages.flatMap((page) => blocks(page, 'ts').map((text) => ({ page, text }))))).toEqual([])
  })

  it('that do not compile are found', { timeout: 240_000 }, () => {
    expect(typeErrors([{ page: 'a page', text: 'fleet.nothing()' }])).toHaveLength(1)
  })
})

describe('docs/architecture.md', () => {
  const page = read('docs/architecture.md')

  it('names only files and folders that exist', () => {
    const paths = [...page.matchAll(/`((?:src|adapters|test|examples|docs)\/[\w./-]*)`/g)].map(
      (match) => match[1] ?? '',
    )
    expect(paths.length).toBeGreaterThan(40)
    expect(paths.filter((path) => !existsSync(join(root, path)))).toEqual([])
  })

  it('has one line for each folder of src and adapters, down to the third level', () => {
    const listed = [...page.matchAll(/^\| `((?:src|adapters)\/[\w/-]*\/)` \|/gm)].map((match) => match[1] ?? '')
    const folders = new Set(filesUnder('src', 'adapters').map((file) => `${posix.dirname(file)}/`))
    folders.delete('src/')
    expect(listed.toSorted()).toEqual([...folders].filter((folder) => folder.split('/').length <= 4).toSorted())
  })
})

interface Program {
  readonly page: string
  readonly text: string
}

/** The variables that programs in the documentation may use without declaring them. */
const ambient: Readonly<Record<string, string>> = {
  fleet: `import('gamekeeper').Fleet`,
  request: `import('gamekeeper').AllocationRequest`,
  match: '{ readonly id: string; readonly players: readonly string[] }',
  signal: 'AbortSignal',
  buildID: 'string',
  sessionID: 'string',
  app: '{ use(path: string, handler: unknown): void }',
  headers: `import('node:http').IncomingHttpHeaders`,
  body: 'string',
  secret: 'string',
  conformanceOptions: `import('gamekeeper/testing').BackendConformanceOptions`,
  it: '(name: string, run: () => Promise<void>) => void',
  withMyChecks: `(fleet: import('gamekeeper').Fleet) => import('gamekeeper').Fleet`,
  retryLater: '() => void',
}

/** Compiles the programs as modules of this package, without writing them to disk. Returns the compiler errors. */
function typeErrors(programs: readonly Program[]): readonly string[] {
  const config = ts.readConfigFile(join(root, 'tsconfig.json'), (path) => ts.sys.readFile(path))
  const options = { ...ts.parseJsonConfigFileContent(config.config, ts.sys, root).options, noUnusedLocals: false }
  const modules = new Map(programs.map((program, i) => [join(root, `test/package/program-${i}.mts`), program]))
  const host = ts.createCompilerHost(options)
  const compiled = ts.createProgram([...modules.keys()], options, {
    ...host,
    fileExists: (path) => modules.has(path) || host.fileExists(path),
    readFile: (path) => modules.get(path)?.text ?? host.readFile(path),
    getSourceFile(path, language) {
      const program = modules.get(path)
      return program ? ts.createSourceFile(path, asModule(program.text), language) : host.getSourceFile(path, language)
    },
  })
  return [...modules].flatMap(([file, { page }]) => {
    const source = compiled.getSourceFile(file)
    const found = [...compiled.getSyntacticDiagnostics(source), ...compiled.getSemanticDiagnostics(source)]
    return found.map(({ messageText }) => `${page}: ${ts.flattenDiagnosticMessageText(messageText, '\n')}`)
  })
}

function asModule(text: string): string {
  const declarations = Object.entries(ambient)
    .filter(([name]) => !new RegExp(`(const|import) \\{?.*\\b${name}\\b.* (=|from) `).test(text))
    .map(([name, type]) => `declare const ${name}: ${type}`)
  return `${declarations.join('\n')}\n${text}\nexport {}\n`
}
