/** Runs the program of the README in a new project. */
import { spawn } from 'node:child_process'
import { symlink } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { expect, it } from 'vitest'
import { root, watch } from './host.js'
import { until } from './until.js'
import { workplace } from './workplace.js'

const tsx = pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href

/** Imported first: timers of a minute and more never fire, so a leaked one would keep the process from ending. */
const endlessMinutes = `data:text/javascript,${encodeURIComponent(`
  const { setTimeout } = globalThis
  globalThis.setTimeout = (fn, ms, ...rest) => setTimeout(fn, ms >= 60_000 ? 2 ** 31 - 1 : ms, ...rest)
`)}`

it(
  "the README's program allocates a server, terminates everything it started, and can be run again",
  { timeout: 240_000 },
  async () => {
    const place = await workplace('.gamekeeper/quickstart')
    // Not in the checkout, where its data directory would get in the way.
    await symlink(join(root, 'examples'), join(place.root, 'examples'))
    for (let run = 1; run <= 2; run++) {
      const command = ['--import', endlessMinutes, '--import', tsx, 'examples/quickstart/main.ts']
      const quickstart = watch(spawn(process.execPath, command, { cwd: place.root }))
      await until('the server is printed', () => quickstart.stdout() !== '' || quickstart.process.exitCode !== null)
      // A leaked resync timer, for example, would keep the process alive.
      expect(await quickstart.exit()).toEqual({ code: 0, signal: null })
      expect(quickstart.stderr()).toBe('')
      expect(quickstart.stdout()).toMatch(
        /IPV4Address: '127\.0\.0\.1',\s+Ports: '7777:\d+',\s+SessionID: '[-0-9a-f]{36}'/,
      )
      expect(await place.running()).toEqual([])
    }
  },
)
