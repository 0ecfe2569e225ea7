/** A fleet in trouble, as an operator sees it who was woken for it: what is wrong, since when, and what to do about it. */
import type { Page } from 'puppeteer-core'
import { expect, onTestFinished } from 'vitest'
import { memoryBackend, type ServerScript } from '../../adapters/memory/index.js'
import { dashboardPage } from '../../src/dashboard/index.js'
import type { Fleet } from '../../src/contracts/fleet.js'
import { type Authorize, serve } from '../../src/http/index.js'
import { createFleet, FleetError, memoryStore, type Store, systemClock } from '../../src/index.js'
import { build, buildID, standingBy } from '../http/fleet.js'
import { until } from '../http/client.js'
import { testInBrowser } from './browser.js'
import { browserOfFile, press, shows, violations } from './open-page.js'
import { wireTo } from './wire.js'

const { open } = browserOfFile()
const limitMs = 300_000
const output = ['loading map canyon', 'Error: ENOENT canyon.nav']

interface Troubled {
  readonly fleet: Fleet
  readonly url: string
  /** Of build `season-two`: whether its games crash. */
  readonly games: { crash: boolean }
  close(): Promise<void>
}

interface TroubledOptions {
  readonly store?: Store
  readonly authorize?: Authorize
  readonly faults?: (fleet: Fleet) => Partial<Fleet>
}

async function troubled({ store, authorize, faults = () => ({}) }: TroubledOptions = {}): Promise<Troubled> {
  const games = { crash: true }
  const script = ({ build: { name } }: { readonly build: { readonly name: string } }): ServerScript =>
    name === 'season-two' && games.crash ? { exitsWith: 3 } : {}
  const backend = memoryBackend({ clock: systemClock, heartbeatIntervalMs: 25, script })
  async function* logs() {
    yield* output
  }
  const withLogs = { ...backend, logs }
  const fleet = await createFleet({ backend: withLogs, logger: false, ...(store && { store }) })
  const ports = { allocation: { port: 0 }, management: { port: 0 } }
  const shown = { ...fleet, ...faults(fleet) }
  const served = await serve({
    fleet: shown,
    ...ports,
    logger: false,
    dashboard: dashboardPage(),
    ...(authorize && { authorize }),
  })
  const close = async () => {
    await served.close()
    await fleet.close()
  }
  onTestFinished(close)
  return { fleet, url: served.managementUrl, games, close }
}

const seasonTwo = (spec: object = {}) =>
  build({ buildID: 'season-two-2.4', standingBy: 2, max: 4, crashesToMarkUnhealthy: 2, ...spec }, 'season-two')

const isStopped = (fleet: Fleet) =>
  until(async () => {
    const { health, crashesCount, currentInitializing, currentPending } = (await fleet.builds.get('season-two')).status
    return health === 'Unhealthy' && crashesCount >= 2 && currentInitializing + currentPending === 0
  })

const titles = (page: Page) =>
  page.$$eval('.problem-title', (all) => all.map((one) => one.textContent.replace(/ ·.*/, '')))
const buttonsOf = (page: Page, index: number) =>
  page.$$eval(
    '.problem-item',
    (all, at) => [...(all[at]?.querySelectorAll('button, a.button') ?? [])].map((one) => one.textContent),
    index,
  )
const text = (page: Page) => page.evaluate('document.body.innerText')

testInBrowser(
  'the bar says what is wrong, the worst first, above every view, and builds follow the same order',
  async () => {
    const { fleet, url } = await troubled()
    await fleet.builds.create(build({ standingBy: 1 }, 'arena'))
    await fleet.builds.create(build({ buildID: 'practice-1', standingBy: 1 }, 'practice'))
    await fleet.builds.create(seasonTwo())
    await standingBy(fleet, 1)
    await standingBy(fleet, 1, 'practice')
    void fleet.builds.drain('practice')
    await isStopped(fleet)
    const { page } = await open(`${url}/`)
    await shows(page, 'practice is drained')
    const { crashesCount } = (await fleet.builds.get('season-two')).status
    const stopped = `season-two is stopped: ${crashesCount} crashes, 0 of 2 ready`
    await shows(page, stopped)
    expect(await titles(page)).toEqual([`down ${stopped}`, 'drained practice is drained'])
    await shows(page, 'the process exited with code 3; its last output: loading map canyon | Error: ENOENT canyon.nav')
    expect(await buttonsOf(page, 0)).toEqual(['Last log', 'Edit spec', 'Raise the limit'])
    expect(await buttonsOf(page, 1)).toEqual(['Resume'])
    expect(await page.$$eval('.build h2', (all) => all.map((one) => one.textContent))).toEqual([
      ...['season-two', 'practice', 'arena'],
    ])
    expect(await page.$$eval('.build', (all) => all.map((one) => one.className))).toEqual([
      ...['panel build down', 'panel build drained', 'panel build '],
    ])
    expect(await page.$$eval('.readiness b', (all) => all.map((one) => `${one.textContent} ${one.className}`))).toEqual(
      [...['0 of 2 ready red', '0 of 1 ready grey', '1 of 1 ready good']],
    )
    expect(await violations(page)).toEqual([])
    for (const view of ['builds/default/season-two', 'sessions', 'players', 'events', 'try', 'nowhere']) {
      await page.evaluate(`location.hash = '#/${view}'`)
      await shows(page, stopped)
      // Not one word of what the fleet no longer does.
      expect(await text(page), view).not.toMatch(/tries again|as the fleet starts them/)
    }
    await page.evaluate(`location.hash = '#/builds/default/season-two'`)
    await shows(page, 'No servers, and none will be started: the build is stopped after')
    expect(await violations(page)).toEqual([])
    // Events bring what changes, without a reload.
    await press(page, 'Resume')
    await page.waitForSelector('dialog[open]')
    await page.locator('dialog button[type=submit]').click()
    await page.waitForFunction(`!document.body.innerText.includes('practice is drained')`)
    expect(await titles(page)).toEqual([`down ${stopped}`])
  },
  limitMs,
)

testInBrowser(
  'the buttons of a stopped build show its last log, raise its limit so that it starts servers again, and edit its spec',
  async () => {
    const { fleet, url, games } = await troubled()
    await fleet.builds.create(seasonTwo())
    await isStopped(fleet)
    const { page } = await open(`${url}/`)
    await press(page, 'Last log')
    await shows(page, 'Last log of season-two-')
    await shows(page, output.join('\n'))
    await page.waitForFunction(`document.activeElement.textContent === 'Close'`)
    expect(await violations(page)).toEqual([])
    await press(page, 'Close')
    await page.waitForFunction(`document.activeElement.textContent === 'Last log'`)

    await page.locator('.problem-item a.button').click()
    await page.waitForFunction(`document.activeElement.tagName === 'TEXTAREA'`)
    expect(page.url()).toBe(`${url}/#/builds/default/season-two`)
    await press(page, 'Cancel')

    games.crash = false
    await press(page, 'Raise the limit')
    await shows(page, 'Raise the crash limit of season-two')
    await shows(page, 'Starts 2 servers.')
    await page.locator('dialog input').fill('2')
    await shows(page, 'Must be a whole number above')
    await page.locator('dialog input').fill('50')
    expect(await violations(page)).toEqual([])
    await page.locator('dialog button[type=submit]').click()
    // After crashes, the fleet waits before it starts further servers.
    await page.waitForFunction(`!document.body.innerText.includes('is stopped')`)
    expect((await fleet.builds.get('season-two')).spec.crashesToMarkUnhealthy).toBe(50)
    await page.evaluate(`location.hash = '#/'`)
    await shows(page, '2 of 2 ready')
  },
  limitMs,
)

testInBrowser(
  'of the buttons, each caller gets those that the rights to this build allow',
  async () => {
    const { fleet, url } = await troubled({
      authorize: (request, { name, role }) =>
        role === 'read' ? name !== 'readLogs' : request.param('name') === 'season-two' && name === 'applyBuild',
    })
    await fleet.builds.create(seasonTwo())
    await fleet.builds.create(build({ buildID: 'practice-1', standingBy: 0 }, 'practice'))
    void fleet.builds.drain('practice')
    await isStopped(fleet)
    const { page } = await open(`${url}/`)
    await shows(page, 'practice is drained')
    await page.waitForFunction(`[...document.querySelectorAll('.problem-item')].map((one) =>
      [...one.querySelectorAll('button, a.button')].map(({ textContent }) => textContent).join()).join(';') === 'Edit spec;'`)
  },
  limitMs,
)

testInBrowser(
  'crashes are grouped by their cause, with the log of the latest open',
  async () => {
    const { fleet, url } = await troubled()
    await fleet.builds.create(seasonTwo())
    await isStopped(fleet)
    const { crashesCount } = (await fleet.builds.get('season-two')).status
    const { page } = await open(`${url}/#/builds/default/season-two`)
    await shows(page, `${crashesCount} × exit 3, last`)
    await shows(page, ': Error: ENOENT canyon.nav')
    await page.waitForFunction(`document.querySelector('details[open] pre')?.innerText.trim() ===
      ${JSON.stringify(output.join('\n'))}`)
    await shows(page, `${crashesCount} in the last hour`)
    expect(await page.$$('.crash-groups > li')).toHaveLength(1)
    expect(await violations(page)).toEqual([])
  },
  limitMs,
)

testInBrowser(
  'after a restart of the host, the crashes that it keeps are shown, and what is not known is said to be unknown',
  async () => {
    const store = memoryStore()
    const before = await troubled({ store })
    await before.fleet.builds.create(seasonTwo())
    await isStopped(before.fleet)
    const { crashesCount } = (await before.fleet.builds.get('season-two')).status
    await before.close()
    const { url } = await troubled({ store })
    const { page } = await open(`${url}/#/builds/default/season-two`)
    await shows(page, `season-two is stopped: ${crashesCount} crashes, 0 of 2 ready`)
    await shows(page, `${crashesCount} × exit 3, last`)
    await shows(page, `${crashesCount} in the last hour, unknown before`)
    expect(await text(page)).not.toMatch(/tries again|as the fleet starts them|None/)
    expect(await violations(page)).toEqual([])
    await page.evaluate(`location.hash = '#/'`)
    await shows(page, 'crashes in an hour, unknown before')
    await shows(page, `≥ ${crashesCount}`)
    await shows(page, `${crashesCount} × exit 3 of season-two, last`)
    expect(await text(page)).not.toMatch(/tries again|None|first servers are starting/)
    expect(await violations(page)).toEqual([])
  },
  limitMs,
)

testInBrowser(
  'a build that lacks servers because of its max says that max is reached',
  async () => {
    const { fleet, url } = await troubled()
    await fleet.builds.create(build({ standingBy: 2, max: 3 }))
    await standingBy(fleet, 2)
    const { page } = await open(`${url}/`)
    await page.waitForSelector('.readiness .good')
    for (let n = 0; n < 2; n++) {
      await fleet.allocate({ buildID, sessionID: crypto.randomUUID(), initialPlayers: [] }, { waitMs: 10_000 })
    }
    await page.waitForSelector('.readiness .amber')
    await shows(page, 'max reached')
    await shows(page, '1 of 2 ready')
    await fleet.allocate({ buildID, sessionID: crypto.randomUUID(), initialPlayers: [] }, { waitMs: 10_000 })
    await shows(page, 'arena is full: 3 servers in use, max 3')
    await page.waitForSelector('.readiness .red')
    expect(await buttonsOf(page, 0)).toEqual(['Scale', 'Sessions'])
    await page.locator('.build h2 a').click()
    await press(page, 'Scale')
    await page.locator('dialog input').fill('3')
    await shows(page, 'Starts and ends no server now, not 3: max is 3, and 3 are in use.')
  },
  limitMs,
)

testInBrowser(
  'while the host is away, a banner says from when the data are, everything is grey, and no action can be taken',
  async () => {
    const { fleet, url } = await troubled()
    await fleet.builds.create(build())
    await fleet.builds.create(seasonTwo())
    await standingBy(fleet, 2)
    await isStopped(fleet)
    const wire = await wireTo(url)
    const { page } = await open(wire.url)
    await shows(page, 'Store works')
    await shows(page, 'season-two is stopped')
    expect(await page.$('.stale-banner')).toBeNull()
    wire.cut()
    await shows(page, 'retrying.')
    expect(await page.$eval('.stale-banner', (banner) => banner.textContent)).toMatch(
      /^Data from \d\d:\d\d:\d\d, retrying\. .*actions are off/,
    )
    const filters = `['main', '.problems'].map((part) => getComputedStyle(document.querySelector(part)).filter)`
    expect(await page.evaluate(filters)).toEqual(
      Array.from({ length: 2 }, () => expect.stringContaining('grayscale(1)')),
    )
    await shows(page, 'The health of this host is not known.')
    expect(await page.$('.health .good')).toBeNull()
    expect(
      await page.$$eval('.problem-item button:not([disabled])', (all) => all.map((one) => one.textContent)),
    ).toEqual(['Last log'])
    await page.evaluate(`location.hash = '#/builds/default/arena'`)
    await shows(page, 'build in default')
    expect(await page.$$('.page-title button:not([disabled])')).toEqual([])
    expect(await violations(page)).toEqual([])
    wire.mend()
    await page.waitForSelector('.connection.good')
    await page.waitForFunction(`document.querySelector('.stale-banner, .stale') === null`)
    await page.waitForSelector('.page-title button:not([disabled])')
  },
  limitMs,
)

testInBrowser(
  'a fleet that cannot be read is not called live, neither at first nor later',
  async () => {
    const store = { isAway: true }
    const list = (fleet: Fleet) => () =>
      store.isAway ? Promise.reject(new FleetError('unavailable', 'the store is away')) : fleet.builds.list()
    const { fleet, url } = await troubled({
      faults: (fleet) => ({ builds: { ...fleet.builds, list: list(fleet) } }),
    })
    await fleet.builds.create(build())
    await standingBy(fleet, 2)
    const wire = await wireTo(url)
    const { page } = await open(wire.url)
    await shows(page, 'The fleet cannot be read')
    await page.waitForSelector('.connection.bad')
    expect(await page.$('.connection.good')).toBeNull()
    store.isAway = false
    await shows(page, '2 of 2 ready')
    await page.waitForSelector('.connection.good')
    store.isAway = true
    wire.cut()
    await shows(page, 'Stale for')
    wire.mend()
    // The host answers again, and what is shown is still from before.
    await shows(page, 'the store is away')
    await page.waitForSelector('.stale-banner')
    await page.waitForSelector('.connection.bad')
    store.isAway = false
    await page.waitForSelector('.connection.good')
    await page.waitForFunction(`document.querySelector('.stale-banner') === null`)
  },
  limitMs,
)

testInBrowser(
  'what is wrong is never stale without saying so',
  async () => {
    const store = { isAway: false }
    const { fleet, url } = await troubled({
      faults: (all) => ({
        problems: (options) =>
          store.isAway ? Promise.reject(new FleetError('unavailable', 'the store is away')) : all.problems(options),
      }),
    })
    await fleet.builds.create(build({ standingBy: 0 }))
    void fleet.builds.drain('arena')
    const { page } = await open(`${url}/`)
    await shows(page, 'arena is drained')
    store.isAway = true
    await fleet.builds.resume('arena')
    await shows(page, 'What is wrong cannot be read: the store is away. Below is what was wrong at')
    expect(await violations(page)).toEqual([])
    store.isAway = false
    await page.waitForFunction(`document.querySelector('.problems') === null`)
  },
  limitMs,
)
