/** What the page shows while the host's answers are still on their way. */
import { expect } from 'vitest'
import { build, buildID, sessionID, standingBy } from '../http/fleet.js'
import { testInBrowser } from './browser.js'
import { gate, memoryHost } from './memory-host.js'
import { browserOfFile, press, shows } from './open-page.js'

const { open } = browserOfFile()
const limitMs = 300_000

testInBrowser(
  'servers that are removed while a build is read again do not come back',
  async () => {
    const { fleet } = await memoryHost()
    const { held, release, pass } = gate()
    const get: typeof fleet.builds.get = async (...query) => {
      await pass()
      return fleet.builds.get(...query)
    }
    const { url } = await memoryHost({ fleet: { ...fleet, builds: { ...fleet.builds, get } } })
    await fleet.builds.create(build())
    await standingBy(fleet, 2)
    const { page } = await open(`${url}/`)
    await shows(page, '2 standing by')
    await fleet.builds.patch('arena', { standingBy: 0 })
    await held
    await page.waitForSelector('.bar[aria-label^="no servers"]')
    release()
    await shows(page, '0 of 0 ready')
    await page.waitForSelector('.bar[aria-label^="no servers"]')
  },
  limitMs,
)

testInBrowser(
  'before the last hour is there, the page does not say that nothing has crashed',
  async () => {
    const { fleet } = await memoryHost()
    const { held, release, pass } = gate()
    const activity: typeof fleet.activity = async (query) => {
      await pass()
      return fleet.activity(query)
    }
    const { url } = await memoryHost({ fleet: { ...fleet, activity } })
    await fleet.builds.create(build())
    const { page } = await open(`${url}/`)
    await held
    await shows(page, 'Latest crashes')
    expect(await page.evaluate('document.body.innerText')).not.toContain('None in the last hour.')
    release()
    await shows(page, 'None in the last hour.')
  },
  limitMs,
)

testInBrowser(
  "the end of a session is offered by the right to end sessions, not by the right to the server's namespace",
  async () => {
    const verdicts = { withNamespace: true, without: false }
    const { fleet, url } = await memoryHost({
      authorize: (request, { name }) =>
        name !== 'endSession' || (request.param('namespace') === '' ? verdicts.without : verdicts.withNamespace),
    })
    await fleet.builds.create(build())
    await standingBy(fleet, 2)
    const { server } = await fleet.allocate({ buildID, sessionID, initialPlayers: ['amie', 'bob'] }, { confirm: true })
    const buttons = () => page.$$eval('.page-title button', (all) => all.map((one) => one.textContent))
    const { page } = await open(`${url}/#/servers/default/${server.name}`)
    await page.waitForFunction(`document.querySelectorAll('.page-title button').length === 2`)
    expect(await buttons()).toEqual(['Drain', 'Terminate'])
    await press(page, 'Terminate')
    await shows(page, 'Its match with 2 expected players will be ended.')
    Object.assign(verdicts, { withNamespace: false, without: true })
    await page.reload()
    await page.waitForFunction(`document.querySelectorAll('.page-title button').length === 3`)
    await press(page, 'End session')
    await page.locator('dialog button[type=submit]').click()
    await shows(page, 'ending')
  },
  limitMs,
)

testInBrowser(
  'what is scrolled into view is below the head of the page, however many lines that has',
  async () => {
    const { url } = await memoryHost()
    const { page } = await open(`${url}/`)
    for (const width of [1_280, 380, 1_280]) {
      await page.setViewport({ width, height: 700 })
      await page.waitForFunction(`innerWidth === ${width} &&
        parseFloat(getComputedStyle(document.documentElement).scrollPaddingTop) ===
          document.querySelector('header.top').offsetHeight + 8`)
    }
  },
  limitMs,
)
