/** Checks the repository: top-level files, forbidden patterns in tests, machine-specific paths, documented error codes. */
import { readdirSync } from 'node:fs'
import { homedir } from 'node:os'
import { describe, expect, it } from 'vitest'
import { errorCodes } from '../../src/contracts/errors.js'
import { filesUnder, read, root } from './sources.js'

const topLevel = [
  'CHANGELOG.md',
  'CONTRIBUTING.md',
  'LICENSE',
  'README.md',
  'SECURITY.md',
  'adapters',
  'docs',
  'examples',
  'package-lock.json',
  'package.json',
  'src',
  'test',
  'tsconfig.json',
]

/** Generated files that .gitignore excludes. */
const generated = /^(node_modules|dist|coverage|.*\.tgz)$/

/** Folders specific to this machine. A checkout in a short path such as `/app` is left out: docs may mention another `/app`. */
const machinePaths = [...(root.split('/').length > 3 ? [root] : []), `${homedir()}/`, ['', 'tmp', ''].join('/')]

const tests = filesUnder('test', 'examples').filter((file) => file.endsWith('.test.ts'))

describe('the top level', () => {
  it('has only the expected files', () => {
    const visible = readdirSync(root).filter((name) => !name.startsWith('.') && !generated.test(name))
    expect(visible.toSorted()).toEqual(topLevel)
  })
})

describe('tests', () => {
  it.each([
    ['are never skipped', /\b(?:it|test|describe)(?:\.\w+)*\.(?:skip|only|todo|skipIf|runIf|fails)\b|\.skip\(/],
    [
      'never wait for a fixed time',
      /\bawait (?:sleep|delay|pause|setTimeout|scheduler\.wait)\(|new Promise\(.*setTimeout/,
    ],
  ])('%s', (_, pattern) => {
    expect(tests.length).toBeGreaterThan(0)
    expect(tests.flatMap((file) => linesWith(pattern, file))).toEqual([])
  })
})

describe('every file', () => {
  it('contains no path of this machine', () => {
    const files = [...filesUnder('src', 'adapters', 'examples', 'test', 'docs', '.ci'), 'README.md', 'package.json']
    const found = files.flatMap((file) =>
      machinePaths.filter((path) => read(file).includes(path)).map((path) => `${file}: ${path}`),
    )
    expect(found).toEqual([])
  })
})

describe('docs/reference/errors.md', () => {
  it('lists exactly the error codes', () => {
    const rows = read('docs/reference/errors.md').matchAll(/^\|\s*`([^`]+)`\s*\|/gm)
    expect(Array.from(rows, ([, code]) => code ?? '').toSorted()).toEqual([...errorCodes].toSorted())
  })
})

function linesWith(pattern: RegExp, file: string): readonly string[] {
  const lines = read(file).split('\n')
  return lines.flatMap((line, index) => (pattern.test(line) ? [`${file}:${index + 1} ${line.trim()}`] : []))
}
