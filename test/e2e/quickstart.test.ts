/** Does the README from top to bottom in an empty directory: installs the packed package with npm and runs the program. */
import { execFile, spawn } from 'node:child_process'
import { readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'
import { link, pack } from '../package/consumer.js'
import { blocks, fileOf } from '../package/pages.js'
import { watch } from './host.js'
import { until } from './until.js'
import { workplace } from './workplace.js'

const exec = promisify(execFile)

/** npm takes what it can from its cache. Scripts are left out, since the package has to work without them. */
const npm = { npm_config_prefer_offline: 'true', npm_config_audit: 'false', npm_config_ignore_scripts: 'true' }

/** Imported first: timers of a minute and more never fire, so a leaked one would keep the process from ending. */
const endlessMinutes = `data:text/javascript,${encodeURIComponent(`
  const { setTimeout } = globalThis
  globalThis.setTimeout = (fn, ms, ...rest) => setTimeout(fn, ms >= 60_000 ? 2 ** 31 - 1 : ms, ...rest)
`)}`

it('the README works from an empty directory, and can be repeated', { timeout: 240_000 }, async () => {
  const place = await workplace('.gamekeeper')
  const archive = await pack(place.root)
  const [install = '', start = '', ...others] = blocks('README.md', 'sh')
  const [program = ''] = blocks('README.md', 'js')
  expect(others).toEqual([])

  // Until the package is published, its archive stands for its name.
  await exec('sh', ['-c', install.replace(/ gamekeeper\n$/, ` ${archive}`)], {
    cwd: place.root,
    env: { ...process.env, ...npm },
  })
  await writeFile(join(place.root, fileOf(program)), program)
  await compiles(place.root, program)

  for (let run = 1; run <= 2; run++) {
    const env = { ...process.env, NODE_OPTIONS: `--import=${endlessMinutes}` }
    const quickstart = watch(spawn('sh', ['-c', start], { cwd: place.root, env }))
    await until('the server is printed', () => quickstart.stdout() !== '' || quickstart.process.exitCode !== null)
    // A leaked resync timer, for example, would keep the process alive.
    expect(await quickstart.exit()).toEqual({ code: 0, signal: null })
    expect(quickstart.stderr()).toBe('')
    expect(quickstart.stdout()).toMatch(/^127\.0\.0\.1 \d+\n$/)
    expect(await place.running()).toEqual([])
  }
})

/** Type-checks the program strictly, with the declarations of the package and of everything that npm installed with it. */
async function compiles(folder: string, program: string): Promise<void> {
  expect(await readdir(join(folder, 'node_modules'))).not.toContain('typescript')
  await link(folder, ['typescript', '@types/node'])
  const require = `import fleet = require('gamekeeper')\nexport const make: typeof fleet.createFleet = fleet.createFleet\n`
  await Promise.all([writeFile(join(folder, 'main.mts'), program), writeFile(join(folder, 'other.cts'), require)])
  const options = ['--noEmit', '--strict', '--skipLibCheck', 'false', '--module', 'nodenext', '--types', 'node']
  const tsc = ['node_modules/typescript/bin/tsc', '--target', 'es2022', ...options, 'main.mts', 'other.cts']
  await exec(process.execPath, tsc, { cwd: folder })
  await exec(process.execPath, ['--input-type=commonjs', '--eval', `require('gamekeeper').createFleet.name`], {
    cwd: folder,
  })
}
