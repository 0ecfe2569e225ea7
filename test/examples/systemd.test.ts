/** The unit of examples/systemd: systemd accepts it, the page shows it, and what it starts is in the package. */
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, it, onTestFinished } from 'vitest'
import { blocks } from '../package/pages.js'
import { read } from '../package/sources.js'

const exec = promisify(execFile)
const unit = read('examples/systemd/gamekeeper.service')

it('is what the page shows', () => {
  expect(blocks('docs/guides/systemd.md', 'ini')).toEqual([unit])
})

it('starts the command of the package, and leaves game servers running', () => {
  const { bin }: { bin: Record<string, string> } = JSON.parse(read('package.json'))
  const command = /^ExecStart=(.*)$/m.exec(unit)?.[1]
  expect(command).toBe(`/usr/bin/env node /opt/gamekeeper/node_modules/gamekeeper/${bin['gamekeeper']?.slice(2)} serve`)
  expect(unit).toMatch(/^KillMode=process$/m)
})

it('is accepted by systemd, which refuses one with a mistake', async () => {
  const analyze = '/usr/bin/systemd-analyze'
  // Elsewhere nothing could judge it.
  if (!existsSync(analyze) && process.env['REQUIRE_ENGINES'] === undefined) return
  const folder = await mkdtemp(join(tmpdir(), 'gamekeeper-systemd-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const verify = async (text: string) => {
    await writeFile(join(folder, 'gamekeeper.service'), text)
    const { stderr } = await exec(analyze, [
      'verify',
      '--recursive-errors=no',
      join(folder, 'gamekeeper.service'),
    ]).catch((error: { readonly stderr: string }) => error)
    return stderr.split('\n').filter((line) => line.includes('gamekeeper.service'))
  }
  expect(await verify(unit)).toEqual([])
  expect(await verify(unit.replace('KillMode=process', 'KillMode=proces'))).not.toEqual([])
})
