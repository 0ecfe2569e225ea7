/** The tree is tidy: what lies at the top, what tests may not do, what no file may name, what docs must list. */
import { readdirSync } from 'node:fs'
import { homedir } from 'node:os'
import { describe, expect, it } from 'vitest'
import { errorCodes } from '../../src/contracts/errors.js'
import { filesUnder, read, root } from './sources.js'

const topLevel = [
  'CHANGELOG.md',
  'LICENSE',
  'README.md',
  'adapters',
  'docs',
  'examples',
  'package-lock.json',
  'package.json',
  'src',
  'test',
  'tsconfig.json',
]

/** What .gitignore names: made by the tools, never committed. */
const made = /^(node_modules|dist|coverage|.*\.tgz)$/

/** Folders of this machine. A checkout at `/app` is left out: documentation may well speak of another `/app`. */
const machinePaths = [...(root.split('/').length > 3 ? [root] : []), `${homedir()}/`, ['', 'tmp', ''].join('/')]

const tests = filesUnder('test', 'examples').filter((file) => file.endsWith('.test.ts'))

describe('the top level', () => {
  it('shows only what a visitor needs', () => {
    const visible = readdirSync(root).filter((name) => !name.startsWith('.') && !made.test(name))
    expect(visible.toSorted()).toEqual(topLevel)
  })
})

describe('tests', () => {
  it.each([
    ['all run', /\b(?:it|test|describe)(?:\.\w+)*\.(?:skip|only|todo|skipIf|runIf|fails)\b|\.skip\(/],
    [
      'wait for a condition, not for a time',
      /\bawait (?:sleep|delay|pause|setTimeout|scheduler\.wait)\(|new Promise\(.*setTimeout/,
    ],
  ])('%s', (_, pattern) => {
    expect(tests.length).toBeGreaterThan(0)
    expect(tests.flatMap((file) => linesWith(pattern, file))).toEqual([])
  })
})

describe('every file', () => {
  it('could have been written on any machine', () => {
    const files = [...filesUnder('src', 'adapters', 'examples', 'test', 'docs', '.ci'), 'README.md', 'package.json']
    const found = files.flatMap((file) =>
      machinePaths.filter((path) => read(file).includes(path)).map((path) => `${file}: ${path}`),
    )
    expect(found).toEqual([])
  })
})

describe('docs/reference/errors.md', () => {
  it('tells of every error code, and of no other', () => {
    const rows = read('docs/reference/errors.md').matchAll(/^\|\s*`([^`]+)`\s*\|/gm)
    expect(Array.from(rows, ([, code]) => code ?? '').toSorted()).toEqual([...errorCodes].toSorted())
  })
})

function linesWith(pattern: RegExp, file: string): readonly string[] {
  const lines = read(file).split('\n')
  return lines.flatMap((line, index) => (pattern.test(line) ? [`${file}:${index + 1} ${line.trim()}`] : []))
}
