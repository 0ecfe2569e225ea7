/** `gamekeeper init`: writes a small project from examples/starter. */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, dirname, join, relative, resolve } from 'node:path'
import type { Command } from 'commander'
import { UsageError } from '../../config/usage-error.js'
import { packageRoot, packageVersion } from '../../platform/packages.js'
import { isObject } from '../../rules/validation/problem.js'
import type { Terminal } from '../terminal.js'

export function addInit(program: Command, terminal: Terminal): void {
  program
    .command('init')
    .description('Write a small project: a game server, a host app, a test, a Dockerfile and a compose file.')
    .argument('[directory]', 'Where to write it.', '.')
    .option('--json', 'Print the written files as JSON.')
    .addHelpText('after', notes)
    .action((directory: string, { json }: { readonly json?: boolean }) => {
      const folder = resolve(terminal.cwd, directory)
      const written = writeProject(folder)
      if (json) return terminal.print(JSON.stringify({ directory: folder, files: written }))
      for (const file of written) terminal.print(`wrote ${relative(terminal.cwd, join(folder, file))}`)
      if (!written.includes('package.json')) terminal.print('package.json exists and is unchanged; it needs gamekeeper')
      terminal.print(`\nNext:\n${nextSteps(relative(terminal.cwd, folder)).join('\n')}`)
    })
}

/** Returns the names of the files. Throws UsageError, and writes nothing, if one of them exists. */
function writeProject(folder: string): readonly string[] {
  const files = new Map<string, string>()
  const source = join(packageRoot(), 'examples', 'starter')
  for (const name of readdirSync(source).toSorted()) files.set(name, readFileSync(join(source, name), 'utf8'))
  files.set('.gitignore', 'node_modules\n.gamekeeper\n')
  files.set('.dockerignore', 'node_modules\n.gamekeeper\n')
  const existing = [...files.keys()].filter((name) => existsSync(join(folder, name)))
  if (existing.length > 0) {
    throw new UsageError(
      `${existing.join(', ')} exist${existing.length === 1 ? 's' : ''} in ${folder}, and init overwrites nothing; name another directory: gamekeeper init arena`,
    )
  }
  // A project that gamekeeper was just installed in has a manifest, which belongs to its owner.
  if (!existsSync(join(folder, 'package.json'))) files.set('package.json', manifest(folder))
  mkdirSync(folder, { recursive: true })
  for (const [name, text] of files) writeFileSync(join(folder, name), text, { flag: 'wx' })
  return [...files.keys()]
}

function manifest(folder: string): string {
  const name =
    basename(folder)
      .toLowerCase()
      .replaceAll(/[^a-z0-9-]+/g, '-')
      .replaceAll(/^-+|-+$/g, '') || 'arena'
  const scripts = { start: 'node host.mjs', dev: 'gamekeeper dev node game.mjs', test: 'node --test' }
  const dependencies = { gamekeeper: installedFrom(folder) ?? `^${packageVersion()}` }
  return `${JSON.stringify({ name, private: true, type: 'module', scripts, dependencies }, undefined, 2)}\n`
}

/** How npm finds the file that this package was installed from, if it was one. The registry may not have this version. */
function installedFrom(folder: string): string | undefined {
  const modules = dirname(packageRoot())
  let text: string
  try {
    text = readFileSync(join(modules, '.package-lock.json'), 'utf8')
  } catch {
    return undefined
  }
  const lock: unknown = JSON.parse(text)
  const packages = isObject(lock) ? lock['packages'] : undefined
  const entry = isObject(packages) ? packages[`node_modules/${basename(packageRoot())}`] : undefined
  const resolved = isObject(entry) ? entry['resolved'] : undefined
  if (typeof resolved !== 'string' || !resolved.startsWith('file:')) return undefined
  return `file:${relative(folder, resolve(dirname(modules), resolved.slice('file:'.length)))}`
}

function nextSteps(folder: string): readonly string[] {
  return [
    ...(folder === '' ? [] : [`  cd ${folder}`]),
    '  npm install',
    '  npx gamekeeper dev node game.mjs   runs the game, and allocates a match to play with',
    '  node --test                        tests the host app with simulated game servers',
    '  node host.mjs                      runs the host app; then: curl -X POST http://127.0.0.1:3000/matches',
  ]
}

const notes = `
Existing files are never overwritten. An existing package.json is left as it is.
`
