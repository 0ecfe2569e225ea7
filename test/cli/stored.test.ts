/** Commands on a DATA_DIR that is damaged, empty or not there. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { fill, garble, sessionOf } from '../stores/damage.js'
import { cli, emptyDirectory } from './cli.js'

it('of a damaged store name what is damaged', async () => {
  const cwd = await emptyDirectory()
  await fill(join(cwd, 'data/store'), 10)
  const { code, stdout } = await cli(['get', 'servers', '--data-dir', 'data'], { cwd })
  expect([code, stdout.trimEnd().split('\n')]).toEqual([0, expect.objectContaining({ length: 11 })])
  await garble(join(cwd, 'data/store'), sessionOf(3))
  const damaged = `the store in ${join(cwd, 'data/store')} is damaged: server default/arena-00003 is damaged: its checksum does not match; restore its whole directory from a backup`
  for (const command of [['get', 'builds'], ['status'], ['explain', 'arena-00001'], ['logs', 'arena-00001']]) {
    const expected = { code: 1, stdout: '', stderr: `gamekeeper: ${damaged}\n` }
    expect(await cli([...command, '--data-dir', 'data'], { cwd })).toEqual(expected)
    expect(await cli(command, { cwd, env: { DATA_DIR: 'data' } })).toEqual(expected)
  }
})

it.each([
  [['get', 'builds', '--data-dir', 'no'], 5, /^gamekeeper: there is no store in .*\/no\/store\n$/],
  [['get', 'builds', '--data-dir', 'file'], 5, /^gamekeeper: there is no store in .*\/file\/store\n$/],
  [
    ['get', 'builds', '--data-dir', 'no', '--url', 'http://127.0.0.1:1'],
    2,
    /^gamekeeper: --url and --data-dir are two/,
  ],
  [['get', 'builds', '--watch', '--data-dir', 'no'], 5, /there is no store/],
])('%j ends with exit code %i', async (args, code, message) => {
  const cwd = await emptyDirectory()
  await writeFile(join(cwd, 'file'), '')
  expect(await cli(args, { cwd })).toEqual({ code, stdout: '', stderr: expect.stringMatching(message) })
})
