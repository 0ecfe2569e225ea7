/** One word, one meaning: no two source files have the same name, and no name is exported by two of them, unless it is the same thing. */
import { posix } from 'node:path'
import ts from 'typescript'
import { describe, expect, it } from 'vitest'
import { filesUnder, read } from './sources.js'

/** The page has files and components of its own, which nothing else imports. */
const sources = filesUnder('src', 'adapters').filter(
  (file) => file.endsWith('.ts') && !file.startsWith('src/dashboard/page/'),
)

/** Names of files that several files have, and why. */
const sharedFileNames: Readonly<Record<string, string>> = {
  'index.ts': 'what a folder exports',
  'backend.ts': 'the contract of backends, and each of them',
  'store.ts': 'the contract of stores, and that of Kubernetes',
  'elector.ts': 'the contract of electors, and that of Kubernetes',
  'options.ts': 'the options of a fleet, and of each backend',
  'logs.ts': 'per backend: the log of a game',
  'server-data.ts': 'the data of servers: their rules, and the operation that changes them',
  'serve.ts': 'the command, which has its name, and the function of the package',
}

/** Names that several files export, and why. */
const sharedExports: Readonly<Record<string, string>> = {
  ...perBackend('findAgentEndpoint', 'identityOf', 'instanceOf', 'labelsOf'),
  ...perBackend('PortPool', 'statusOf', 'writeStdin'),
  ...ofKubernetes('BuildCounts', 'Candidate', 'Condition', 'checkTemplate', 'refOf', 'isReady'),
  ...ofKubernetes('maxDelayMs'),
  ...ofEngine('AllocateOptions', 'Seats', 'drainingError'),
  ...calls('buildCalls', 'serverCalls', 'detailCalls', 'sessionCalls'),
  Counter: 'of a server, and of prom-client',
  Identity: 'of a caller, and of an instance per backend',
  isHealthy: 'a build, and a game that is probed',
  keyOf: 'the key of a record, and of a setting',
}

function perBackend(...names: readonly string[]) {
  return Object.fromEntries(names.map((name) => [name, 'the same thing per backend']))
}

function ofKubernetes(...names: readonly string[]) {
  return Object.fromEntries(names.map((name) => [name, 'a term of the Kubernetes API or of its backend alone']))
}

function ofEngine(...names: readonly string[]) {
  return Object.fromEntries(names.map((name) => [name, 'the form that the engine works with']))
}

function calls(...names: readonly string[]) {
  return Object.fromEntries(names.map((name) => [name, 'the calls of a fleet, in process and over HTTP']))
}

/** The names that a file declares and exports. Re-exports are left out. */
function exportsOf(file: string): readonly string[] {
  const source = ts.createSourceFile(file, read(file), ts.ScriptTarget.Latest)
  const names = source.statements.flatMap((statement): readonly string[] => {
    const modifiers = ts.canHaveModifiers(statement) ? (ts.getModifiers(statement) ?? []) : []
    if (!modifiers.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword)) return []
    if (ts.isVariableStatement(statement)) {
      return statement.declarationList.declarations.map(({ name }) => name.getText(source))
    }
    const isNamed =
      ts.isFunctionDeclaration(statement) ||
      ts.isClassDeclaration(statement) ||
      ts.isInterfaceDeclaration(statement) ||
      ts.isTypeAliasDeclaration(statement)
    return isNamed && statement.name ? [statement.name.text] : []
  })
  // A constant and its type may have one name.
  return [...new Set(names)]
}

/** Those that occur more than once, with where. */
function repeated(places: readonly (readonly [name: string, file: string])[]): ReadonlyMap<string, readonly string[]> {
  const found = new Map<string, string[]>()
  for (const [name, file] of places) found.set(name, [...(found.get(name) ?? []), file])
  return new Map([...found].filter(([, files]) => files.length > 1))
}

function unexpected(found: ReadonlyMap<string, readonly string[]>, allowed: Readonly<Record<string, string>>) {
  return [...found]
    .filter(([name]) => !Object.hasOwn(allowed, name))
    .map(([name, files]) => `${name}: ${files.join(', ')}`)
}

describe('names', () => {
  it('of files are unique, except those that mean the same', () => {
    expect(sources.length).toBeGreaterThan(0)
    const files = repeated(sources.map((file) => [posix.basename(file), file] as const))
    expect(unexpected(files, sharedFileNames)).toEqual([])
    expect(
      Object.keys(sharedFileNames).filter((name) => !files.has(name)),
      'no longer shared',
    ).toEqual([])
  })

  it('of exports are unique, except those that mean the same', () => {
    const exported = repeated(sources.flatMap((file) => exportsOf(file).map((name) => [name, file] as const)))
    expect(unexpected(exported, sharedExports)).toEqual([])
    expect(
      Object.keys(sharedExports).filter((name) => !exported.has(name)),
      'no longer shared',
    ).toEqual([])
  })
})
