/** `gamekeeper apply`: creates or updates the builds in a YAML or JSON file. */
import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import type { Command } from 'commander'
import { parseAllDocuments } from 'yaml'
import type { GameServerBuildInput } from '../../client/index.js'
import { UsageError } from '../../config/usage-error.js'
import { messageOf } from '../../contracts/errors.js'
import { isObject } from '../../rules/validation/problem.js'
import { addClientOptions, type ClientFlags, targetOf } from '../client.js'
import type { Terminal } from '../terminal.js'

interface ApplyFlags extends ClientFlags {
  readonly file: string
}

export function addApply(program: Command, terminal: Terminal): void {
  const command = program
    .command('apply')
    .description('Create the builds in a file, or give existing ones exactly the spec in the file.')
    .requiredOption('-f, --file <file>', 'YAML or JSON, with one build in each document. - reads stdin.')
  addClientOptions(command).action(async (flags: ApplyFlags) => {
    const { client, namespace } = await targetOf(terminal, flags)
    const builds = await readBuilds(flags.file, terminal.cwd, namespace)
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

/** The fleet checks the builds; this only makes sure that they are builds. */
export async function readBuilds(
  file: string,
  cwd: string,
  namespace: string,
): Promise<readonly GameServerBuildInput[]> {
  const name = file === '-' ? 'stdin' : file
  const documents = parseAllDocuments(await contentOf(file, cwd))
  const builds: GameServerBuildInput[] = []
  for (const [index, document] of [...documents].entries()) {
    const [error] = document.errors
    if (error) throw new UsageError(`${name} is neither YAML nor JSON: ${error.message}`)
    const build: unknown = document.toJS()
    const where = documents.length > 1 ? `document ${index + 1} of ${name}` : name
    if (!isObject(build) || !isObject(build['metadata']) || !isObject(build['spec']))
      throw new UsageError(`${where} is not a build: it must have metadata and spec`)
    const { kind = 'GameServerBuild', metadata } = build
    if (kind !== 'GameServerBuild') throw new UsageError(`${where} has kind ${String(kind)}, not GameServerBuild`)
    // The server says what else is wrong, and names the field.
    builds.push({ ...build, metadata: { namespace, ...metadata } } as unknown as GameServerBuildInput)
  }
  if (builds.length === 0) throw new UsageError(`${name} is empty`)
  return builds
}

async function contentOf(file: string, cwd: string): Promise<string> {
  if (file === '-') return text(process.stdin)
  try {
    return await readFile(resolve(cwd, file), 'utf8')
  } catch (error) {
    throw new UsageError(`--file: ${file} cannot be read: ${messageOf(error)}`, { cause: error })
  }
}
