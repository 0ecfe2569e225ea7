/** The example of the README, run as a newcomer runs it. */
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

/** To be imported first: a minute never passes, so that a process that something would keep for one does not end at all. */
const endlessMinutes = `data:text/javascript,${encodeURIComponent(`
  const { setTimeout } = globalThis
  globalThis.setTimeout = (fn, ms, ...rest) => setTimeout(fn, ms >= 60_000 ? 2 ** 31 - 1 : ms, ...rest)
`)}`

it(
  'the quickstart hands out a server, ends all it has started, and can be run again',
  { timeout: 240_000 },
  async () => {
    const place = await workplace('.gamekeeper/quickstart')
    // Not in the checkout, where its files would stand in the way of who tries it out.
    await symlink(join(root, 'examples'), join(place.root, 'examples'))
    for (let run = 1; run <= 2; run++) {
      const command = ['--import', endlessMinutes, '--import', tsx, 'examples/quickstart/main.ts']
      const quickstart = watch(spawn(process.execPath, command, { cwd: place.root }))
      await until('it has printed its server', () => quickstart.stdout() !== '' || quickstart.process.exitCode !== null)
      // Nothing that it has closed keeps it from ending: its next look at all instances would be a minute later.
      expect(await quickstart.exit()).toEqual({ code: 0, signal: null })
      expect(quickstart.stderr()).toBe('')
      expect(quickstart.stdout()).toMatch(
        /IPV4Address: '127\.0\.0\.1',\s+Ports: '7777:\d+',\s+SessionID: '[-0-9a-f]{36}'/,
      )
      expect(await place.running()).toEqual([])
    }
  },
)
