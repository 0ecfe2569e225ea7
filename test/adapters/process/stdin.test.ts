/** Games that read lines from their standard input. */
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import type { ProcessBackendOptions } from '../../../adapters/process/index.js'
import type { Backend } from '../../../src/contracts/backend.js'
import { testAsRoot } from './as-root.js'
import { startHost } from './hosts.js'
import { shellGame } from './shell-games.js'
import { cleanUp, contentOf, exited, freshDirectory, gameOf, open, specOf, until } from './support.js'

afterEach(cleanUp)

const ref = { namespace: 'default', name: 'arena-aaaaa' }
const stdin = true
const send = async (backend: Backend, line: string) => backend.writeStdin?.(ref, `${line}\n`)

function printed(directory: string, text: string): Promise<string> {
  return until(`the game prints ${text}`, () => {
    const log = contentOf(join(directory, 'logs', 'default.arena-aaaaa.log'))
    return log?.includes(text) === true && log
  })
}

/** The game opens its standard input again, for each line. */
const repeats = 'echo ready; while read -r line </dev/stdin; do echo "got $line"; done; echo ended'

async function outlivesHost(options: ProcessBackendOptions): Promise<void> {
  const directory = freshDirectory()
  const host = startHost(directory, [shellGame(repeats, { stdin })], 1, options)
  await printed(directory, 'ready')
  host.kill('SIGKILL')
  await once(host, 'exit')
  const second = open(directory, options)
  await send(second, 'from the second host')
  await printed(directory, 'got from the second host')
  await second.close()
  const third = open(directory, options)
  await Promise.all(['a', 'b', 'c'].map((line) => send(third, line.repeat(4_000))))
  for (const line of ['a', 'b', 'c']) await printed(directory, `got ${line.repeat(4_000)}\n`)
  expect(await printed(directory, 'ready')).not.toContain('ended')
}

test('a game reads the lines that hosts send it, one after another, and never the end of its input', () =>
  outlivesHost({}))
testAsRoot('a game with a user of its own reads the lines that hosts send it', () =>
  outlivesHost({ isolation: 'user' }),
)

test('a game in Node reads lines, and exits when it is told to', async () => {
  const directory = freshDirectory()
  const backend = open(directory)
  const code = `require('readline').createInterface({ input: process.stdin }).on('line', (line) => {
    if (line === 'stop') process.exit(3); console.log('got ' + line) })`
  await backend.create(gameOf(code, { stdin }))
  await send(backend, 'save')
  await printed(directory, 'got save')
  await send(backend, 'stop')
  expect(await exited(backend)).toMatchObject({ exitCode: 3 })
  await expect(send(backend, 'again')).rejects.toMatchObject({
    code: 'no-stdin',
    message: 'server default/arena-aaaaa takes no input: its game is not running',
  })
})

test('a game that reads nothing does not block the host, and the line that does not fit is refused whole', async () => {
  const directory = freshDirectory()
  const backend = open(directory)
  const game = 'until [ -e go ]; do sleep 0.05; done; exec cat'
  await backend.create(shellGame(game, { stdin, workingDir: directory }))
  const line = 'x'.repeat(4_095)
  let taken = 0
  const refused = await until('the pipe is full', () =>
    send(backend, line).then(
      () => void taken++,
      (error: unknown) => error,
    ),
  )
  expect(refused).toMatchObject({ code: 'no-stdin', message: expect.stringContaining('does not read what was sent') })
  writeFileSync(join(directory, 'go'), '')
  await until('the pipe has room', () =>
    send(backend, 'end').then(
      () => true,
      () => false,
    ),
  )
  expect(await printed(directory, 'end')).toBe(`${`${line}\n`.repeat(taken)}end\n`)
})

test('a game without stdin: true has none, and the error names the field', async () => {
  const backend = open(freshDirectory())
  await backend.create(specOf(['cat']))
  expect(await exited(backend)).toMatchObject({ exitCode: 0 })
  const second = open(freshDirectory())
  await second.create(specOf(['sleep', '600']))
  await expect(send(second, 'hello')).rejects.toMatchObject({
    code: 'no-stdin',
    message: expect.stringContaining('its template has no stdin: true'),
  })
})

test('a game that needs a terminal gets one from script, and ends on its termination signal', async () => {
  const directory = freshDirectory()
  const backend = open(directory)
  const game = '[ -t 0 ] && echo terminal; while read -r line; do echo "got $line"; done'
  const spec = specOf(['script', '-qefc', game.replaceAll('$', () => '$$'), '/dev/null'], { stdin })
  await backend.create(spec)
  await printed(directory, 'terminal')
  await send(backend, 'hello')
  await printed(directory, 'got hello')
  await backend.destroy(spec.ref, spec.uid, { graceMs: 60_000 })
  expect(await backend.list()).toEqual([])
})
