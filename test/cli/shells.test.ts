/** The command line in real shells: completion, and a pipe whose reader leaves. */
import { execFile, spawnSync } from 'node:child_process'
import { chmod, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, it, onTestFinished } from 'vitest'
import { emptyDirectory, launchCli, program } from './cli.js'

const exec = promisify(execFile)

/** What each shell offers after a line, one candidate per line. */
const completions = {
  bash: `source <(gamekeeper completion bash)
    COMP_WORDS=($1); [[ $1 == *' ' ]] && COMP_WORDS+=(''); COMP_CWORD=$((\${#COMP_WORDS[@]} - 1))
    _gamekeeper; printf '%s\\n' "\${COMPREPLY[@]}"`,
  // zsh completes only in its line editor, which needs a terminal: a second zsh gets one, and a Tab. The quotes within the words
  // keep its echo apart from its answer.
  zsh: `zmodload zsh/zpty; zpty shell zsh -f -i
    zpty -w shell 'PROMPT=; autoload -Uz compinit; compinit -D -u; source <(gamekeeper completion zsh)'
    zpty -w shell 'compadd() { local -a m; builtin compadd -O m "$@"; print -l -- BEG""IN $m EN""D }'
    zpty -w -n shell "$1"$'\\t'; zpty -r -m shell offered '*BEGIN*END*'; zpty -d shell
    print -r -- \${\${offered##*BEGIN}%%END*}`,
  fish: `gamekeeper completion fish | source; complete -C $argv[1]`,
}

const offered = [
  [
    'gamekeeper serve --all',
    ['--allocation-port', '--allocation-url', '--allocate-tokens-file', '--allowed-hosts', '--allowed-origins'],
  ],
  ['gamekeeper completion ', ['bash', 'zsh', 'fish']],
  ['gamekeeper scale arena --st', ['--standing-by']],
] as const

type DefineTest = (title: string, test: () => Promise<void>) => void

/** Tests that need this program. Without it, a placeholder reports that they are left out. */
function inShell(shell: keyof typeof completions): DefineTest {
  const isMissing = spawnSync(shell, ['-c', 'exit']).error !== undefined
  return isMissing ? leaveOut(shell) : (title, test) => it(title, { timeout: 300_000 }, test)
}

function leaveOut(shell: string): DefineTest {
  return (title) =>
    it(`LEFT OUT, ${shell} is not installed: ${title}`, () => {
      console.warn(`left out: ${title} (${shell} is not installed)`)
      const required = (process.env['REQUIRE_ENGINES'] ?? '').split(',')
      expect(required, `REQUIRE_ENGINES wants all shells, but ${shell} is not installed`).not.toContain('shells')
    })
}

/** A directory with nothing but the command `gamekeeper`, first in PATH. */
async function environment(): Promise<Record<string, string>> {
  const home = await emptyDirectory()
  await mkdir(join(home, 'bin'))
  await writeFile(join(home, 'bin/gamekeeper'), `#!/bin/sh\nexec "${process.execPath}" "${program}" "$@"\n`)
  await chmod(join(home, 'bin/gamekeeper'), 0o755)
  return { HOME: home, PATH: `${join(home, 'bin')}:${process.env['PATH']}`, TERM: 'dumb' }
}

for (const shell of ['bash', 'zsh', 'fish'] as const) {
  inShell(shell)(`completes commands, options and arguments in ${shell}`, async () => {
    const env = await environment()
    for (const [line, expected] of offered) {
      const args = shell === 'fish' ? ['-c', completions.fish, line] : ['-c', completions[shell], shell, line]
      const { stdout } = await exec(shell, args, { env, cwd: await emptyDirectory() })
      const found = stdout.split(/\s+/).filter((one) => one !== '')
      expect({ line, found: found.toSorted() }).toEqual({ line, found: [...expected].toSorted() })
    }
  })
}

inShell('bash')('events ends when its reader has gone, although nothing more happens', async () => {
  const cwd = await emptyDirectory()
  const settings = { BACKEND: 'memory', SAMPLE: 'off', ALLOCATION_PORT: '0', MANAGEMENT_PORT: '0' }
  const server = launchCli(['serve'], { cwd, env: settings })
  onTestFinished(async () => {
    server.signal('SIGTERM')
    await server.exit()
  })
  const [, url = ''] = await server.untilPrinted(/"management":"([^"]+)"/)
  const env = { ...(await environment()), GAMEKEEPER_URL: url }
  const script = 'gamekeeper events --from 1 | head -1; echo "ended: ${PIPESTATUS[*]}"'
  const { stdout } = await exec('bash', ['-c', script], { cwd, env })
  expect(stdout).toMatch(/^\S+ LeadershipChanged: .*\nended: 0 0\n$/)
})
