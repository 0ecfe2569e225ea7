/** Limits the size of folders, files and functions. Reads source text only. */
import { dirname } from 'node:path'
import ts from 'typescript'
import { describe, expect, it } from 'vitest'
import { filesUnder, read } from './sources.js'

const maxFilesInFolder = 15
const maxLinesOfFile = 300
const maxLinesOfFunction = 80

const sources = filesUnder('src', 'adapters', 'examples').filter((file) => /\.[cm]?[jt]sx?$/.test(file))

describe('source code', () => {
  it(`has at most ${maxFilesInFolder} files in a folder`, () => {
    const counts = new Map<string, number>()
    for (const file of sources) counts.set(dirname(file), (counts.get(dirname(file)) ?? 0) + 1)
    const crowded = [...counts].filter(([, count]) => count > maxFilesInFolder)
    expect(crowded).toEqual([])
  })

  it(`has at most ${maxLinesOfFile} lines in a file`, () => {
    const long = sources.map((file) => [file, read(file).trimEnd().split('\n').length] as const)
    expect(long.filter(([, lines]) => lines > maxLinesOfFile)).toEqual([])
  })

  it(`has at most ${maxLinesOfFunction} lines in a function, except in one that only returns a table`, () => {
    expect(sources.flatMap((file) => longFunctions(file, read(file)))).toEqual([])
  })

  it('is checked: a long function is reported, and a long table is not', () => {
    const statements = Array.from({ length: maxLinesOfFunction }, (_, i) => `  call(${i})`).join('\n')
    expect(longFunctions('src/x.ts', `function f() {\n${statements}\n}`)).toEqual(['src/x.ts:1 f: 82 lines'])
    const rows = Array.from({ length: maxLinesOfFunction }, (_, i) => `  [${i}],`).join('\n')
    const table = `const first = 1\n  return [\n${rows}\n  ]`
    expect(longFunctions('src/x.ts', `function f() {\n  ${table}\n}`)).toEqual([])
  })
})

function longFunctions(file: string, text: string): readonly string[] {
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true)
  const found: string[] = []
  const lineOf = (position: number) => source.getLineAndCharacterOfPosition(position).line + 1
  const visit = (node: ts.Node): void => {
    if (ts.isFunctionLike(node) && 'body' in node && node.body !== undefined && !isTable(node.body)) {
      const first = lineOf(node.getStart(source))
      const lines = lineOf(node.end) - first + 1
      const name = node.name?.getText(source) ?? 'a function'
      if (lines > maxLinesOfFunction) found.push(`${file}:${first} ${name}: ${lines} lines`)
    }
    ts.forEachChild(node, visit)
  }
  visit(source)
  return found
}

/** True if the function only declares constants and returns a literal, such as rows of data or named cases. */
function isTable(body: ts.Node): boolean {
  const returned = ts.isBlock(body) ? returnedAfterConstants(body) : body
  const literal = returned && ts.isParenthesizedExpression(returned) ? returned.expression : returned
  return literal !== undefined && (ts.isArrayLiteralExpression(literal) || ts.isObjectLiteralExpression(literal))
}

/** Returns the block's return value if all its other statements only declare constants; otherwise undefined. */
function returnedAfterConstants(block: ts.Block): ts.Node | undefined {
  const constants = block.statements.slice(0, -1)
  const last = block.statements.at(-1)
  const isConstant = (one: ts.Statement) =>
    ts.isVariableStatement(one) && (one.declarationList.flags & ts.NodeFlags.Const) !== 0
  return last && ts.isReturnStatement(last) && constants.every(isConstant) ? last.expression : undefined
}
