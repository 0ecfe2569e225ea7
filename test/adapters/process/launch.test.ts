/** How a game is started: whatever its path and the names of its variables are, and without showing these to other users. */
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import type { ProcessBackendOptions } from '../../../adapters/process/index.js'
import { testAsRoot } from './as-root.js'
import { outputOf } from './shell-games.js'
import { cleanUp, contentOf, freshDirectory, gameOf, idle, onCleanUp, open, specOf, until } from './support.js'

afterEach(cleanUp)

/** A game that writes its environment to a file. */
function environmentIn(path: string): string {
  return `require('fs').writeFileSync(${JSON.stringify(path)}, JSON.stringify(process.env));${idle}`
}

const readEnvironment = (path: string) =>
  until('the game has written its environment', () => {
    const text = contentOf(path)
    return text !== undefined && text !== '' && (JSON.parse(text) as Record<string, string>)
  })

test.each(['-u', '--unset', '-S', '--chdir', '-', '--'])(
  'a variable named %s is passed to the game, not read as an option',
  async (name) => {
    const directory = freshDirectory()
    const path = join(directory, 'environment')
    const backend = open(directory)
    await backend.create(gameOf(environmentIn(path), { env: { [name]: 'a', PLAIN: 'b' } }))
    expect(await readEnvironment(path)).toMatchObject({ [name]: 'a', PLAIN: 'b' })
  },
)

test('values that shells would drop or change arrive, and appear in the arguments of no process', async () => {
  const directory = freshDirectory()
  const path = join(directory, 'environment')
  const backend = open(directory)
  const env = { 'my.setting': 'top secret "1" $HOME `x`\n', PPID: 'secret 2', PLAIN: 'secret 3', 'x-y': '' }
  const spec = gameOf(environmentIn(path), { env: { ...env, 'my.setting': env['my.setting'].replace('$', '$$') } })
  await backend.create(spec)
  const read = await readEnvironment(path)
  expect(read).toMatchObject(env)
  expect(Object.keys(read).filter((name) => /^_[0-9a-f]/.test(name))).toEqual([])
  const shown = argumentsOfAll()
  expect(shown).toContain('setInterval')
  expect(shown).not.toMatch(/secret "1"|secret [23]/)
})

/** Names that are those of shells, of JavaScript, or of neither. */
const oddNames = [
  ...[
    '__proto__',
    'constructor',
    'toString',
    'my.setting',
    'a-b',
    '-x',
    '1A',
    'é',
    'A B',
    '*',
    '$(x)',
    "a'b",
    '"',
    'a\nb',
    'f',
  ],
  ...[
    '_',
    'PWD',
    'OLDPWD',
    'SHLVL',
    'PPID',
    'UID',
    'EUID',
    'GROUPS',
    'IFS',
    'PS1',
    'PS4',
    'ENV',
    'CDPATH',
    'MAIL',
    'TERM',
    'TMOUT',
  ],
  ...[
    'OPTIND',
    'OPTARG',
    'OPTERR',
    'LINENO',
    'RANDOM',
    'SRANDOM',
    'SECONDS',
    'EPOCHSECONDS',
    'EPOCHREALTIME',
    'HISTCMD',
  ],
  ...[
    'BASH',
    'BASHPID',
    'BASHOPTS',
    'SHELLOPTS',
    'BASH_ENV',
    'BASH_VERSION',
    'BASH_VERSINFO',
    'BASH_ARGV0',
    'BASH_SUBSHELL',
  ],
  ...[
    'BASH_COMMAND',
    'BASH_ALIASES',
    'BASH_CMDS',
    'BASH_LINENO',
    'BASH_SOURCE',
    'BASH_FUNC_x%%',
    'BASH_EXECUTION_STRING',
  ],
  ...[
    'DIRSTACK',
    'FUNCNAME',
    'PIPESTATUS',
    'HOSTNAME',
    'HOSTTYPE',
    'MACHTYPE',
    'OSTYPE',
    'COMP_WORDBREAKS',
    'GLOBIGNORE',
  ],
  ...['COLUMNS', 'LINES', 'POSIXLY_CORRECT', 'LC_ALL', 'LANG', 'PATH', 'HOME'],
] as const

/** Directories in which a program lies. */
const oddPaths = ['a=b', '=', 'A=1 b', `x='"$(touch y)*;`, 'a\nb=c', '-n=1']

async function startsOddly(options: ProcessBackendOptions): Promise<void> {
  const place = mkdtempSync(join(tmpdir(), 'gamekeeper-odd-'))
  onCleanUp(() => rmSync(place, { recursive: true, force: true }))
  chmodSync(place, 0o755)
  const code = `console.log(JSON.stringify({ argv0: process.argv0, args: process.argv.slice(1), env: Object.entries(process.env) })); console.log('done');${idle}`
  for (const folder of oddPaths) {
    mkdirSync(join(place, folder))
    const program = join(place, folder, 'no=de')
    symlinkSync(process.execPath, program)
    const env = oddNames.map((name) => [name, name === 'PATH' ? '/usr/bin:/bin' : `1 of ${name}`] as const)
    const spec = specOf([program, '-e', code, '--', 'a=b'].map(literal), {
      workingDir: place,
      env: Object.fromEntries(env.map(([name, value]) => [name, literal(value)])),
    })
    const printed = await outputOf(open(freshDirectory(), options), spec)
    const game = JSON.parse(printed.split('\n').find((line) => line.startsWith('{')) ?? '')
    expect(game).toMatchObject({ argv0: program, args: ['a=b'] })
    expect(game.env).toEqual(expect.arrayContaining(env.map(([name, value]) => [name, value])))
  }
}

/** A template's `$$` yields one `$`. */
const literal = (text: string) => text.replaceAll('$', () => '$$')

const starts = 'any program is started by any path with any variables'
test(starts, () => startsOddly({}))
testAsRoot(`${starts}, as another user`, () => startsOddly({ isolation: 'user' }))

function argumentsOfAll(): string {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  return pids.map((pid) => contentOf(`/proc/${pid}/cmdline`) ?? '').join('\n')
}
