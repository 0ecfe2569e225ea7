/** A configuration file in TypeScript, and one with a byte order mark. .ci/runtimes runs this on the versions of Node that strip types. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { cli, emptyDirectory } from './cli.js'

it('settings in a .ts file are loaded where Node strips types, and else the message says what to do', async () => {
  const cwd = await emptyDirectory()
  const text = `const port: number = 70000\nexport default { allocationPort: port }\n`
  await writeFile(join(cwd, 'gamekeeper.config.ts'), text)
  const strips = 'typescript' in process.features && process.features.typescript !== false
  const { code, stderr } = await cli(['serve'], { cwd })
  expect(code).toBe(1)
  if (strips) expect(stderr).toContain('allocationPort in gamekeeper.config.ts must be a port from 0 to 65535')
  else {
    expect(stderr).toBe(
      `gamekeeper: gamekeeper.config.ts needs a Node that strips types, 22.18 or later, but this is Node ${process.versions.node}: use gamekeeper.config.mjs or gamekeeper.config.json\n`,
    )
  }
})

it('a .json file may begin with a byte order mark, and one in UTF-16 is refused by name', async () => {
  const cwd = await emptyDirectory()
  await writeFile(join(cwd, 'gamekeeper.config.json'), '\uFEFF{"allocationPort":70000}')
  const refused = 'allocationPort in gamekeeper.config.json must be a port from 0 to 65535'
  expect((await cli(['serve'], { cwd })).stderr).toContain(refused)
  await writeFile(join(cwd, 'gamekeeper.config.json'), '\uFEFF{}', 'utf16le')
  expect((await cli(['serve'], { cwd })).stderr).toContain('gamekeeper.config.json is UTF-16')
})
