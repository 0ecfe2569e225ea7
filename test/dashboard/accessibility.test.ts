/** Every view and state of the page on a dark phone with reduced motion: nothing that axe finds wrong, nothing that is cut. */
import type { Page } from 'puppeteer-core'
import { expect } from 'vitest'
import { bearerTokens } from '../../src/http/index.js'
import { FleetError } from '../../src/index.js'
import { build, buildID, sessionID, standingBy } from '../http/fleet.js'
import { testInBrowser } from './browser.js'
import { memoryHost } from './memory-host.js'
import { browserOfFile, press, shows, violations } from './open-page.js'
import { wireTo } from './wire.js'

const { open } = browserOfFile()
const limitMs = 300_000

async function openOnPhone(url: string): Promise<Page> {
  const { page } = await open(url)
  await page.setViewport({ width: 380, height: 800 })
  await page.emulateMediaFeatures([
    { name: 'prefers-color-scheme', value: 'dark' },
    { name: 'prefers-reduced-motion', value: 'reduce' },
  ])
  return page
}

/** What a finger has to hit that is too small for it. Links within a text are as high as the text. */
const tooSmall = `[...document.querySelectorAll('a, button, input, select, summary, label.check')]
  .filter((one) => one.checkVisibility() && !one.matches('.skip, [type=range]') && getComputedStyle(one).display !== 'inline')
  .flatMap((one) => {
    const { width, height } = one.getBoundingClientRect()
    const least = one.matches('main button, dialog button, .problems button, a.button, summary') ? 44 : 24
    return Math.min(width, height) < least ? [one.outerHTML.slice(0, 120) + ' ' + width + ' x ' + height] : []
  })`

async function isFine(page: Page, text: string): Promise<void> {
  await shows(page, text)
  expect(await violations(page), text).toEqual([])
  expect(await page.evaluate(tooSmall), text).toEqual([])
  expect(await page.evaluate('document.documentElement.scrollWidth'), text).toBeLessThanOrEqual(380)
  const moving = await page.evaluate('document.getAnimations().length')
  expect(moving, text).toBe(0)
}

testInBrowser(
  'the views and dialogs of a fleet with a match are accessible on a dark phone',
  async () => {
    const { fleet, url } = await memoryHost()
    await fleet.builds.create(build())
    await standingBy(fleet, 2)
    const { server } = await fleet.allocate({ buildID, sessionID, initialPlayers: ['amie'] }, { confirm: true })
    const wire = await wireTo(url)
    const page = await openOnPhone(wire.url)
    await isFine(page, '1 active')
    for (const [path, text] of [
      ['sessions', 'amie'],
      ['events', 'allocated'],
      ['try', 'curl -X POST'],
      [`servers/default/${server.name}`, 'was allocated to session'],
      ['servers/default/none', 'Nothing is known of a server none'],
      ['builds/default/none', 'There is no build none'],
      ['nowhere', 'There is nothing at this address'],
      ['builds/default/arena', 'build in default'],
    ] as const) {
      await page.evaluate(`location.hash = '#/${path}'`)
      await isFine(page, text)
    }
    for (const name of ['Scale', 'Drain', 'Delete', 'Help']) {
      await press(page, name)
      await page.waitForSelector('dialog[open]')
      await isFine(page, name === 'Help' ? 'Keys' : name)
      await page.keyboard.press('Escape')
      await page.waitForFunction(`document.querySelector('dialog') === null`)
    }
    wire.cut()
    await isFine(page, 'Stale for')
    wire.mend()
    await page.waitForSelector('.connection.good')
  },
  limitMs,
)

testInBrowser(
  'what is wrong, and the crashes of a build that is stopped, are accessible on a dark phone',
  async () => {
    const { fleet, url } = await memoryHost({}, { exitsWith: 3 })
    await fleet.builds.create(build({ crashesToMarkUnhealthy: 1 }))
    const page = await openOnPhone(`${url}/`)
    await isFine(page, 'arena is stopped:')
    await isFine(page, '× exit 3 of arena, last')
    await page.evaluate(`location.hash = '#/builds/default/arena'`)
    await isFine(page, '× exit 3, last')
    for (const name of ['Last log', 'Raise the limit']) {
      await press(page, name)
      await page.waitForSelector('dialog[open]')
      await isFine(page, 'of arena')
      await page.keyboard.press('Escape')
      await page.waitForFunction(`document.querySelector('dialog') === null`)
    }
  },
  limitMs,
)

testInBrowser(
  'an empty fleet, a caller without a token or right, and a host that fails are accessible on a dark phone',
  async () => {
    const empty = await memoryHost()
    await isFine(await openOnPhone(`${empty.url}/`), 'No builds yet')
    const token = 'a-token-that-allocates'
    const guarded = await memoryHost({ authorize: bearerTokens([{ token, roles: ['allocate'] }]) })
    const page = await openOnPhone(`${guarded.url}/`)
    await isFine(page, 'Sign in')
    await page.locator('input[type=password]').fill(token)
    await page.keyboard.press('Enter')
    await isFine(page, 'You may not read this fleet')
    for (const [code, text] of [
      ['not-leader', 'Another host leads this fleet'],
      ['unavailable', 'The fleet cannot be read'],
    ] as const) {
      const { fleet } = empty
      const list = () => Promise.reject(new FleetError(code, 'of no use now'))
      const failing = await memoryHost({ fleet: { ...fleet, builds: { ...fleet.builds, list } } })
      await isFine(await openOnPhone(`${failing.url}/`), text)
    }
  },
  limitMs,
)
