/** How environment variables reach a game: whatever their names are, and without being visible to other users. */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { cleanUp, contentOf, freshDirectory, gameOf, idle, open, until } from './support.js'

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

function argumentsOfAll(): string {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  return pids.map((pid) => contentOf(`/proc/${pid}/cmdline`) ?? '').join('\n')
}
