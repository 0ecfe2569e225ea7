/** `gamekeeper apply`: creates or updates the builds in a YAML or JSON file. */
import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { buffer } from 'node:stream/consumers'
import type { Command } from 'commander'
import { Lexer, parseAllDocuments } from 'yaml'
import type { GameServerBuildInput } from '../../client/index.js'
import { CommandLineError, UsageError } from '../../config/usage-error.js'
import { messageOf } from '../../contracts/errors.js'
import { isObject } from '../../rules/validation/problem.js'
import { addClientOptions, type ClientFlags, commandTarget } from '../client.js'
import type { Terminal } from '../terminal.js'
import { decodeText } from '../flags.js'

interface ApplyFlags extends ClientFlags {
  readonly file?: string
}

export function addApply(program: Command, terminal: Terminal): void {
  const command = program
    .command('apply')
    .description('Create the builds in a file, or give existing ones exactly the spec in the file.')
    .argument('[file]', 'YAML or JSON, with a build or a list of builds in each document. - reads stdin.')
    .option('-f, --file <file>', 'The same.')
  addClientOptions(command).action(async (argument: string | undefined, flags: ApplyFlags) => {
    const file = argument ?? flags.file
    if (file === undefined)
      throw new CommandLineError('apply needs a file: gamekeeper apply build.json, or - for stdin')
    if (argument !== undefined && flags.file !== undefined)
      throw new CommandLineError(`apply takes one file, but got ${argument} and --file ${flags.file}`)
    const { client, namespace } = await commandTarget(terminal, flags)
    const builds = await readBuilds(file, terminal.cwd, namespace)
    const results: object[] = []
    for (const build of builds) {
      const applied = await client.builds.apply(build)
      results.push(applied)
      const { name } = applied.build.metadata
      if (!flags.json) terminal.print(`build ${name} ${applied.result}`)
    }
    if (flags.json) terminal.print(JSON.stringify(results))
  })
}

/** Lists of Kubernetes, as `kubectl get -o yaml` prints them. */
const listKinds: ReadonlySet<unknown> = new Set(['List', 'GameServerBuildList'])

/** Reads one build in each document, or a list of them. The fleet checks the builds; this only makes sure that they are builds. */
export async function readBuilds(
  file: string,
  cwd: string,
  namespace: string,
): Promise<readonly GameServerBuildInput[]> {
  const name = file === '-' ? 'stdin' : file
  const documents = await readDocuments(file, cwd)
  const builds: GameServerBuildInput[] = []
  for (const [index, content] of documents.entries()) {
    // Templates print a separator and comments for what they leave out.
    if (content === null) continue
    const where = documents.length > 1 ? `document ${index + 1} of ${name}` : name
    for (const [one, build] of itemsOf(content, where)) builds.push(buildOf(build, one, namespace))
  }
  if (builds.length === 0) throw new UsageError(`${name} has no builds: it is empty, or all comments`)
  return builds
}

/** The documents of a file in YAML or JSON. An empty one is null. Throws UsageError. */
export async function readDocuments(file: string, cwd: string): Promise<readonly unknown[]> {
  const name = file === '-' ? 'stdin' : file
  const text = decodeText(await contentOf(file, cwd), name)
  refuseDeep(name, text)
  return [...parseAllDocuments(text, { merge: true })].map((document) => {
    const [error] = document.errors
    if (error) throw new UsageError(`${name} is neither YAML nor JSON: ${firstLine(error)}`)
    return valueOf(name, document)
  })
}

/** A document, or the items of a list, each with its name for messages. */
function itemsOf(content: unknown, where: string): readonly (readonly [string, unknown])[] {
  const isList = isObject(content) && listKinds.has(content['kind']) && content['items'] !== undefined
  const items = isList ? content['items'] : content
  if (!Array.isArray(items)) return [[where, items]]
  return items.map((item: unknown, i) => [`item ${i + 1} of ${where}`, item])
}

function buildOf(build: unknown, where: string, namespace: string): GameServerBuildInput {
  if (!isObject(build) || !isObject(build['metadata']) || !isObject(build['spec']))
    throw new UsageError(`${where} is not a build: it must have metadata and spec`)
  const { kind = 'GameServerBuild', metadata } = build
  if (kind !== 'GameServerBuild') throw new UsageError(`${where} has kind ${String(kind)}, not GameServerBuild`)
  // The server says what else is wrong, and names the field.
  return { ...build, metadata: { namespace, ...metadata } } as unknown as GameServerBuildInput
}

const maxBytes = 4 * 1024 * 1024
/** As many as in the body of a request. */
const maxDepth = 100
/** How far a line may be indented, with the indicators of nested lists: each level takes a column. */
const maxIndent = 400
const indent = /^[ \t]*(?:[-?:][ \t]+)*/

/** The parser calls itself for each level, and takes seconds for thousands of levels before it fails. */
function refuseDeep(name: string, content: string): void {
  if (Buffer.byteLength(content) > maxBytes) throw new UsageError(`${name} is larger than ${maxBytes} bytes`)
  let depth = 0
  let line = 1
  for (const lexeme of new Lexer().lex(content)) {
    if (lexeme === '[' || lexeme === '{') depth++
    else if (lexeme === ']' || lexeme === '}') depth--
    if (depth > maxDepth) throw new UsageError(`line ${line} of ${name} is nested deeper than ${maxDepth} levels`)
    for (let at = lexeme.indexOf('\n'); at >= 0; at = lexeme.indexOf('\n', at + 1)) line++
  }
  for (const [i, text] of content.split('\n').entries()) {
    const [indented = ''] = indent.exec(text) ?? []
    if (indented.length > maxIndent)
      throw new UsageError(
        `line ${i + 1} of ${name} is nested too deeply: it is indented by ${indented.length} columns`,
      )
  }
}

function valueOf(name: string, document: { toJS(): unknown }): unknown {
  try {
    return document.toJS()
  } catch (error) {
    // For example, too many aliases.
    throw new UsageError(`${name} cannot be read: ${firstLine(error)}`, { cause: error })
  }
}

/** The parser's messages go on with a part of the file. */
function firstLine(error: unknown): string {
  return messageOf(error).split('\n', 1)[0]?.replace(/:$/, '') ?? ''
}

/** - is stdin. */
export async function contentOf(file: string, cwd: string): Promise<Uint8Array> {
  if (file === '-') return buffer(process.stdin)
  try {
    return await readFile(resolve(cwd, file))
  } catch (error) {
    throw new CommandLineError(`${file} cannot be read: ${messageOf(error)}`, { cause: error })
  }
}
