/** The page's connection to its host, in a real browser: lost connections, hosts that stand by, tokens that cannot be sent. */
import { onTestFinished } from 'vitest'
import { memoryBackend } from '../../adapters/memory/index.js'
import { dashboardPage } from '../../src/dashboard/index.js'
import { bearerTokens, serve, type ServeOptions } from '../../src/http/index.js'
import { createFleet, type ElectionListener, type Elector, systemClock } from '../../src/index.js'
import type { Fleet } from '../../src/contracts/fleet.js'
import { build, standingBy } from '../http/fleet.js'
import { testInBrowser } from './browser.js'
import { gate } from './memory-host.js'
import { browserOfFile, shows } from './open-page.js'
import { wireTo } from './wire.js'

const limitMs = 300_000
const { open } = browserOfFile()

async function openFleet(elector?: Elector): Promise<Fleet> {
  const backend = memoryBackend({ clock: systemClock, heartbeatIntervalMs: 100 })
  const fleet = await createFleet({ backend, logger: false, ...(elector && { elector }) })
  onTestFinished(() => fleet.close())
  return fleet
}

async function served(fleet: Fleet, options: Partial<ServeOptions> = {}): Promise<string> {
  const ports = { allocation: { port: 0 }, management: { port: 0 } }
  const all = await serve({ fleet, ...ports, logger: false, dashboard: dashboardPage(), ...options })
  onTestFinished(() => all.close())
  return all.managementUrl
}

testInBrowser(
  'is live again after a lost connection, even if nothing happens in the fleet',
  async () => {
    const wire = await wireTo(await served(await openFleet()))
    const { page } = await open(wire.url)
    await shows(page, 'No builds yet')
    wire.cut()
    await shows(page, 'Stale for')
    wire.mend()
    await page.waitForSelector('.connection.good')
  },
  limitMs,
)

testInBrowser(
  'builds that are created or edited while the page reads the fleet appear',
  async () => {
    const fleet = await openFleet()
    const { held, release, pass } = gate()
    let isSlow = false
    const list: typeof fleet.servers.list = async (query) => {
      if (isSlow) await pass()
      return fleet.servers.list(query)
    }
    const wire = await wireTo(await served({ ...fleet, servers: { ...fleet.servers, list } }))
    await fleet.builds.create(build())
    const { page } = await open(`${wire.url}#/events`)
    await shows(page, 'build arena was created')
    wire.cut()
    await shows(page, 'Stale for')
    isSlow = true
    wire.mend()
    // The page reads all servers again, and has the builds already.
    await held
    await fleet.builds.patch('arena', { max: 7 })
    await fleet.builds.create(build({ buildID: 'other', standingBy: 0 }, 'duel'))
    await shows(page, 'build duel was created')
    release()
    await page.evaluate(`location.hash = '#/'`)
    await page.waitForFunction(`document.querySelectorAll('.build').length === 2`)
    await page.waitForSelector('.bar[aria-label$="at most 7"]')
  },
  limitMs,
)

testInBrowser(
  'says that another host leads, before it has shown the fleet and after, and shows the fleet once this host leads',
  async () => {
    let listener: ElectionListener | undefined
    const elector: Elector = {
      run(given) {
        listener = given
        given.lost('host-b')
        return () => Promise.resolve()
      },
    }
    const fleet = await openFleet(elector)
    const { page } = await open(await served(fleet))
    await shows(page, 'Another host leads this fleet')
    listener?.elected()
    await shows(page, 'No builds yet')
    await fleet.builds.create(build())
    await standingBy(fleet, 2)
    await shows(page, '2 standing by')
    listener?.lost('host-b')
    await shows(page, 'Another host leads this fleet')
    listener?.elected()
    await shows(page, '2 standing by')
  },
  limitMs,
)

testInBrowser(
  'refuses a token that no request can carry, and still accepts another',
  async () => {
    const token = 'a-token-that-reads-only'
    const authorize = bearerTokens([{ token, roles: ['read'] }])
    const { page } = await open(await served(await openFleet(), { authorize }))
    await page.locator('input[type=password]').fill(`\u201c${token}\u201d`)
    await page.keyboard.press('Enter')
    await shows(page, 'A token consists of ASCII characters')
    await page.locator('input[type=password]').fill(token)
    await page.keyboard.press('Enter')
    await shows(page, 'No builds yet')
  },
  limitMs,
)
