/** README.md and the pages quickstart, operations, backends and errors say what the code says: tables are equal, programs compile. */
import { readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'
import { describe, expect, it } from 'vitest'
import { defaultLimits, errorCodes, FleetError } from 'gamekeeper'
import { dockerBackend } from '../../adapters/docker/index.js'
import { kubernetesBackend } from '../../adapters/kubernetes/index.js'
import { settings } from '../../examples/server/settings.js'
import { allocationStatuses, managementStatuses } from '../../src/http/core/error-responses.js'

const root = fileURLToPath(new URL('../..', import.meta.url))
const textOf = (path: string) => readFile(join(root, path), 'utf8')
const pages = [
  'README.md',
  'docs/quickstart.md',
  'docs/operations.md',
  'docs/errors.md',
  'docs/backends.md',
  'docs/security.md',
  'docs/metrics.md',
  'docs/kubernetes.md',
]

/** The rows of the table whose first heading is this, as cells. */
function table(page: string, heading: string): readonly (readonly string[])[] {
  const body = new RegExp(`^\\| ${heading} \\|.*\n\\|-.*\n((?:\\|.*\n?)+)`, 'm').exec(page)?.[1] ?? ''
  return body
    .trimEnd()
    .split('\n')
    .map((row) =>
      row
        .split('|')
        .slice(1, -1)
        .map((cell) => cell.trim()),
    )
}

/** What stands between the first backquotes of a cell. */
function name(cell = ''): string {
  return /`([^`]+)`/.exec(cell)?.[1] ?? ''
}

function programs(page: string): readonly string[] {
  return [...page.matchAll(/^```ts\n([^]*?)^```$/gm)].map((match) => match[1] ?? '')
}

describe('README.md', () => {
  it('shows the quickstart as the file that runs', async () => {
    expect(programs(await textOf('README.md'))).toEqual([await textOf('examples/quickstart/main.ts')])
  })

  it('names the backends that the package exports', async () => {
    const { exports }: { exports: object } = JSON.parse(await textOf('package.json'))
    const imports = table(await textOf('README.md'), 'backend').map((row) => name(row[1]).replace('gamekeeper', '.'))
    expect(Object.keys(exports)).toEqual(expect.arrayContaining(imports))
    expect(imports).toContain('./process')
  })
})

describe('docs/errors.md', () => {
  it('has each code, whether it is retryable, and its statuses', async () => {
    const rows = table(await textOf('docs/errors.md'), 'code')
    expect(
      rows.map(([code, , retryable, management, allocation]) => [name(code), retryable, management, allocation]),
    ).toEqual(
      errorCodes.map((code) => [
        code,
        new FleetError(code, '').retryable ? 'yes' : 'no',
        String(managementStatuses[code]),
        String(allocationStatuses[code]),
      ]),
    )
  })
})

describe('docs/operations.md', () => {
  it('has each setting of the bundled server', async () => {
    const rows = table(await textOf('docs/operations.md'), 'variable')
    expect(rows.map(([variable, fallback, meaning]) => [name(variable), name(fallback), meaning])).toEqual(
      Object.entries(settings).map(([variable, setting]) => [
        variable,
        'fallback' in setting ? setting.fallback : '',
        setting.meaning,
      ]),
    )
  })

  it('has each limit with its default', async () => {
    const rows = table(await textOf('docs/operations.md'), 'limit')
    const listed = rows.map(([limit, value = '']) => [name(limit), Number(value.replaceAll(',', ''))])
    expect(listed).toEqual(Object.entries(defaultLimits))
  })

  it('has each event with what it holds', { timeout: 120_000 }, async () => {
    const listed = new Map<string, readonly string[]>()
    for (const [type, , fields = ''] of table(await textOf('docs/operations.md'), 'event')) {
      listed.set(name(type), [...fields.matchAll(/`(\w+)`/g)].map(([, field = '']) => field).toSorted())
    }
    expect(listed).toEqual(eventFields())
  })

  it('has each condition', async () => {
    const source = await textOf('src/rules/model/resources.ts')
    const types = /conditionTypes = \[(.*)\]/.exec(source)?.[1] ?? ''
    const listed = table(await textOf('docs/operations.md'), 'condition').map(([type]) => name(type))
    expect(listed).toEqual([...types.matchAll(/'(\w+)'/g)].map((match) => match[1]))
  })
})

describe('docs/backends.md', () => {
  it('has each option of the Docker backend', async () => {
    const listed = table(await textOf('docs/backends.md'), 'option').map(([option]) => name(option))
    const unknown: object = { 'no such option': 1 }
    expect(() => dockerBackend(unknown)).toThrow(`known options: ${listed.join(', ')}`)
  })

  it('has each option of the Kubernetes backend', async () => {
    const listed = table(await textOf('docs/backends.md'), 'kubernetesBackend').map(([option]) => name(option))
    const unknown: object = { 'no such option': 1 }
    expect(() => kubernetesBackend(unknown)).toThrow(`known options: ${listed.join(', ')}`)
  })
})

describe('the programs on these pages', () => {
  it.each(pages)('%s: they compile', { timeout: 120_000 }, async (path) => {
    expect(typeErrors(programs(await textOf(path)))).toEqual([])
  })
})

describe('the links on these pages', () => {
  it.each(pages)('%s: they lead somewhere', async (path) => {
    for (const [, target = ''] of (await textOf(path)).matchAll(/\]\(([^)]+)\)/g)) {
      const [file = '', heading] = target.split('#')
      const page = await textOf(file === '' ? path : join(dirname(path), file))
      const headings = [...page.matchAll(/^#+ (.*)$/gm)].map((match) => match[1]?.toLowerCase().replaceAll(' ', '-'))
      if (heading !== undefined) expect(headings).toContain(heading)
    }
  })
})

const options: ts.CompilerOptions = (() => {
  const read = ts.readConfigFile(join(root, 'tsconfig.json'), (path) => ts.sys.readFile(path))
  return ts.parseJsonConfigFileContent(read.config, ts.sys, root).options
})()

/** What the pages take for granted: an app around their lines. */
const surroundings: Readonly<Record<string, string>> = {
  fleet: `import('gamekeeper').Fleet`,
  request: `import('gamekeeper').AllocationRequest`,
  match: '{ readonly id: string; readonly players: readonly string[] }',
  askAgainSoon: '() => void',
}

/** What the compiler says to programs as modules of this package, which are never written. */
function typeErrors(texts: readonly string[]): readonly string[] {
  const modules = new Map(texts.map((text, i) => [join(root, `test/examples/program-${i}.mts`), inItsApp(text)]))
  const host = ts.createCompilerHost(options)
  const files = {
    ...host,
    fileExists: (path: string) => modules.has(path) || host.fileExists(path),
    readFile: (path: string) => modules.get(path) ?? host.readFile(path),
    getSourceFile(path: string, language: ts.ScriptTarget | ts.CreateSourceFileOptions) {
      const text = modules.get(path)
      return text === undefined ? host.getSourceFile(path, language) : ts.createSourceFile(path, text, language)
    },
  }
  const compiled = ts.createProgram([...modules.keys()], { ...options, noUnusedLocals: false }, files)
  return [...modules.keys()].flatMap((file) => {
    const source = compiled.getSourceFile(file)
    const found = [...compiled.getSyntacticDiagnostics(source), ...compiled.getSemanticDiagnostics(source)]
    return found.map((problem) => ts.flattenDiagnosticMessageText(problem.messageText, '\n'))
  })
}

function inItsApp(program: string): string {
  const declared = Object.entries(surroundings)
    .filter(([variable]) => !program.includes(`const ${variable} `))
    .map(([variable, type]) => `declare const ${variable}: ${type}`)
  return `${declared.join('\n')}\n${program}\nexport {}\n`
}

/** Each type of event with the fields that only it has, as the compiler knows them. */
function eventFields(): ReadonlyMap<string, readonly string[]> {
  const file = join(root, 'src/contracts/events.ts')
  const program = ts.createProgram([file], options)
  const checker = program.getTypeChecker()
  const source = program.getSourceFile(file)
  const declaration = source?.statements.find(
    (statement) => ts.isTypeAliasDeclaration(statement) && statement.name.text === 'FleetEvent',
  )
  if (!declaration) throw new Error('src/contracts/events.ts has no FleetEvent')
  const type = checker.getTypeAtLocation(declaration)
  const common = new Set(['type', 'at', 'message', 'build', 'server', 'seq'])
  const fields = new Map<string, readonly string[]>()
  for (const member of type.isUnion() ? type.types : [type]) {
    const own = checker.getPropertiesOfType(member).map((property) => property.name)
    const typeField = member.getProperty('type')
    if (!typeField) throw new Error('an event has no type')
    const names = checker.getTypeOfSymbolAtLocation(typeField, declaration)
    for (const one of names.isUnion() ? names.types : [names]) {
      if (one.isStringLiteral()) fields.set(one.value, own.filter((field) => !common.has(field)).toSorted())
    }
  }
  return fields
}
