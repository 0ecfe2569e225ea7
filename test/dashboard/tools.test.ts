/** The tools for many servers: the map, tables that sort, keys, and the box that finds and does. */
import type { Page } from 'puppeteer-core'
import { expect } from 'vitest'
import { until } from '../http/client.js'
import { build, buildID, sessionID, standingBy } from '../http/fleet.js'
import { testInBrowser } from './browser.js'
import { largeFleet } from './large-fleet.js'
import { listening, memoryHost } from './memory-host.js'
import { browserOfFile, press, shows, violations } from './open-page.js'

const { open } = browserOfFile()
const limitMs = 300_000

async function largeHost() {
  const fleet = largeFleet()
  return { fleet, url: await listening(fleet.server.listen(0, '127.0.0.1')) }
}

const hashOf = async (page: Page) => String(await page.evaluate('location.hash'))
/** Waits for the view, which is shown later than its address, and takes the focus and the keys only then. */
const goes = (page: Page, hash: string) => {
  const place = hash.split('/').at(-1)
  const title = place ? `${place} · gamekeeper` : 'gamekeeper'
  return page.waitForFunction(
    `location.hash === ${JSON.stringify(hash)} && document.title === ${JSON.stringify(title)}`,
  )
}

testInBrowser(
  'the map shows 10,000 servers as squares: in the colour of their state, with a hint, by build or node, and opens them',
  async () => {
    const { fleet, url } = await largeHost()
    const { page, complaints } = await open(`${url}/#/servers`)
    await shows(page, '10,000 servers')
    const label = (text: string) => page.waitForSelector(`.server-map canvas[aria-label^="${text}"]`)
    await label('Map of 10,000 servers of 10 builds: 10,000 standing by.')
    /** Where the first square of the second build is. */
    const at = `((group) => [group.offsetLeft + 1, group.offsetTop + 21])(document.querySelectorAll('.group')[1])`
    const colour = `(() => {
      const canvas = document.querySelector('.server-map canvas')
      return [...canvas.getContext('2d').getImageData(...${at}, 1, 1).data].join()
    })()`
    await page.waitForFunction(`${colour} !== '0,0,0,0'`)
    const standingBy = await page.evaluate(colour)
    // A server of each build becomes active, of the second one the first.
    await fleet.change(10)
    await label('Map of 10,000 servers of 10 builds: 9,990 standing by, 10 active.')
    await page.waitForFunction(`${colour} !== '${String(standingBy)}'`)
    expect(await violations(page)).toEqual([])

    const { x = 0, y = 0 } = (await (await page.$('.server-map canvas'))?.boundingBox()) ?? {}
    const [left = 0, top = 0] = (await page.evaluate(at)) as readonly number[]
    await page.mouse.move(x + left, y + top)
    await page.waitForFunction(`document.querySelector('.hint')?.innerText.startsWith('arena-1-0')`)
    await shows(page, 'active · ')
    await shows(page, '203.0.113.0:20000 · node-0')
    await page.mouse.move(x + 1, y + 5)
    await page.waitForFunction(`document.querySelector('.hint') === null`)

    await page.select('[aria-label="Group the map by"]', 'node')
    await label('Map of 10,000 servers of 20 nodes')
    expect(await page.$$eval('.group', (groups) => groups.slice(8, 11).map(({ textContent }) => textContent))).toEqual([
      'node-8 500',
      'node-9 500',
      'node-10 500',
    ])
    await page.type('[aria-label^="Filter servers"]', 'arena-7-12')
    await shows(page, '11 of 10,000 servers')
    // A filter narrows down the map, too, and is kept in the address.
    await label('Map of 11 servers')
    expect(await hashOf(page)).toBe('#/servers?by=node&text=arena-7-12')
    await page.mouse.click(x + 1, y + 21)
    await page.waitForFunction(`location.hash.startsWith('#/servers/default/arena-7-12')`)
    await page.goBack()
    await shows(page, '11 of 10,000 servers')
    expect(complaints.filter((text) => !text.includes('history'))).toEqual([])
  },
  limitMs,
)

testInBrowser(
  'a table is sorted by its heads, j and k go through it, Enter opens a row, and Back keeps order, filter and place',
  async () => {
    const { url } = await largeHost()
    const { page } = await open(`${url}/#/builds/default/arena-3`)
    await shows(page, '1,000 servers')
    const head = `[...document.querySelectorAll('[role=columnheader]')].find((one) => one.innerText.startsWith('Server'))`
    const sortBy = () => page.evaluate(`${head}.querySelector('button').click()`)
    const firstIs = (name: string) =>
      page.waitForFunction(`document.querySelector('.row.servers:not(.head) a').innerText === '${name}'`)
    await sortBy()
    await firstIs('arena-3-0')
    expect(await page.evaluate(`${head}.ariaSort`)).toBe('ascending')
    await sortBy()
    await firstIs('arena-3-999')
    expect(await page.evaluate(`${head}.ariaSort`)).toBe('descending')
    await page.type('[aria-label^="Filter servers"]', 'arena-3-9')
    await shows(page, '111 of 1,000 servers')
    await page.evaluate('document.activeElement.blur()')
    await page.keyboard.press('j')
    const focused = (name: string) =>
      page.waitForFunction(
        `document.activeElement.role === 'row' && document.activeElement.innerText.startsWith('${name}')`,
      )
    await focused('arena-3-999')
    await page.keyboard.press('k')
    await focused('arena-3-999')
    for (let n = 0; n < 30; n++) await page.keyboard.press('j')
    await focused('arena-3-971')
    const scrolled = Number(await page.evaluate(`document.querySelector('.servers-table').scrollTop`))
    expect(scrolled).toBeGreaterThan(300)
    const pageTop = Number(await page.evaluate('scrollY'))
    await page.keyboard.press('Enter')
    await goes(page, '#/servers/default/arena-3-971')
    await page.goBack()
    await shows(page, '111 of 1,000 servers')
    await page.waitForFunction(`document.querySelector('.servers-table').scrollTop === ${scrolled}`)
    expect(await page.evaluate('scrollY')).toBe(pageTop)
    expect(await hashOf(page)).toBe('#/builds/default/arena-3?sort=-Server&text=arena-3-9')
    expect(await page.evaluate(`${head}.ariaSort`)).toBe('descending')
    await sortBy()
    await page.waitForFunction(`${head}.ariaSort === null`)
    // A row that is half scrolled away is too small to be hit.
    await page.evaluate(`document.querySelector('.servers-table').scrollTop = 0`)
    await firstIs('arena-3-9')
    expect(await violations(page)).toEqual([])
  },
  limitMs,
)

testInBrowser(
  'Ctrl K finds by address and port, goes to views, and opens the dialog of what it is told to do',
  async () => {
    const { url } = await largeHost()
    const { page } = await open(`${url}/`)
    await shows(page, 'arena-9')
    const command = async () => {
      await page.keyboard.down('Control')
      await page.keyboard.press('k')
      await page.keyboard.up('Control')
      await page.waitForSelector('#found')
    }
    const chosen = (text: string) =>
      page.waitForFunction(
        `document.querySelector('[role=option][aria-selected=true]')?.innerText.startsWith(${JSON.stringify(text)})`,
      )
    // Without a text, it says what it can do.
    await command()
    await chosen('Go to Overview')
    expect(await violations(page)).toEqual([])
    await page.keyboard.type('203.0.113.7:20007')
    await chosen('203.0.113.7:20007 address of arena-')
    await page.keyboard.press('Enter')
    await page.waitForFunction(`/^#.servers.default.arena-\\d-7$/.test(location.hash)`)
    await page.waitForFunction(`document.title.startsWith('arena-')`)

    await command()
    await page.keyboard.type('scale arena-3')
    await chosen('Scale arena-3')
    await page.keyboard.press('Enter')
    await goes(page, '#/builds/default/arena-3')
    await page.waitForFunction(`document.querySelector('dialog[open] h2')?.innerText.startsWith('Scale')`)
    // Keys belong to the dialog.
    await page.keyboard.press('Escape')
    await page.waitForFunction(`document.querySelector('dialog') === null`)
    // It is opened once, not whenever the view is.
    await page.evaluate('document.activeElement.blur()')
    await page.keyboard.press('g')
    await page.keyboard.press('e')
    await goes(page, '#/events')
    await page.goBack()
    await shows(page, '1,000 servers')
    expect(await page.$('dialog')).toBeNull()

    await page.keyboard.press('g')
    await page.keyboard.press('m')
    await goes(page, '#/servers')
    await page.keyboard.press('g')
    await page.keyboard.press('o')
    await goes(page, '#/')
    await page.keyboard.press('j')
    await page.keyboard.press('j')
    await page.waitForFunction(`document.activeElement === document.querySelectorAll('.build h2 a')[1]`)
    await command()
    await page.keyboard.type('drain arena-3-99')
    await chosen('Drain arena-3-99')
    await page.keyboard.type('9')
    await chosen('Drain arena-3-999')
  },
  limitMs,
)

testInBrowser(
  'a server that was started after the page was opened is found by its port, and is drained by its name',
  async () => {
    const { fleet, url } = await memoryHost()
    const { page } = await open(`${url}/`)
    await shows(page, 'No builds yet')
    await fleet.builds.create(build({ standingBy: 1, max: 1 }))
    await shows(page, '1 standing by')
    const [server] = await fleet.servers.list()
    const address = `${server?.status.publicIP}:${server?.status.ports.split(':')[1]}`
    await page.keyboard.press('/')
    await page.keyboard.type(address)
    await page.waitForFunction(`document.querySelector('#found')?.innerText.startsWith(${JSON.stringify(address)})`)
    await page.keyboard.press('Escape')
    await page.keyboard.press('/')
    await page.keyboard.type(`drain ${server?.metadata.name}`)
    await page.waitForSelector('[role=option][aria-selected=true]')
    await page.keyboard.press('Enter')
    await page.waitForFunction(`document.querySelector('dialog[open] h2')?.innerText.startsWith('Drain')`)
  },
  limitMs,
)

testInBrowser(
  'the charts begin with their data, share a crosshair with values, mark what happened, and lead to the events of a minute',
  async () => {
    const { fleet, backend, url } = await memoryHost()
    await fleet.builds.create(build({ standingBy: 1, max: 1 }))
    await standingBy(fleet, 1)
    const [server] = await fleet.servers.list()
    backend.server(server?.metadata ?? { namespace: '', name: '' }).exit(3)
    await until(async () => (await fleet.builds.get('arena')).status.crashesCount === 1)
    await standingBy(fleet, 1)
    // They are not among the newest 500 events.
    for (let n = 0; n < 600; n++) await fleet.builds.patch('arena', { max: 2 + (n % 2) })
    const { page, complaints } = await open(`${url}/`)
    await page.waitForFunction(`[...document.querySelectorAll('.tiles .bad dd')].some((one) => one.innerText === '1')`)
    await shows(page, 'No error of the host itself among the newest 500 events.')
    await page.waitForSelector('.pointable canvas')
    const marked = `document.querySelector('[aria-label="Marked in the charts"]')?.textContent ?? ''`
    for (const text of ['arena was created', 'crash of arena', 'this host began to lead'])
      await page.waitForFunction(`(${marked}).includes('${text}')`)
    await page.waitForFunction(`document.querySelector('.legend.marks').innerText.includes('deployment')`)
    // Five minutes, not an hour of which 55 are empty.
    const first = '.pointable[aria-label^="Minute of: Allocations a minute"]'
    expect(Number(await page.$eval(first, (one) => one.ariaValueMax))).toBeLessThan(10)
    expect(await violations(page)).toEqual([])

    // By keyboard: the last minute, in all charts.
    await page.focus(first)
    await page.keyboard.press('End')
    await page.waitForFunction(`document.querySelectorAll('.crosshair').length === 5`)
    const readouts = () => page.$$eval('.readout', (all) => all.map(({ textContent }) => textContent ?? ''))
    expect((await readouts())[0]).toMatch(/^\d\d:\d\d · allocations: 0/)
    expect((await readouts()).at(-1)).toMatch(/^\d\d:\d\d · crashes: \d/)
    await page.keyboard.press('ArrowLeft')
    await page.keyboard.press('Escape')
    await page.waitForFunction(`document.querySelector('.crosshair') === null`)
    // By mouse: a click on the minute of the crash leads to its events.
    const { x = 0, y = 0, width = 0 } = (await (await page.$(`${first} .u-over`))?.boundingBox()) ?? {}
    await page.mouse.move(x + width - 12, y + 20)
    await page.waitForFunction(`document.querySelectorAll('.crosshair').length === 5`)
    await page.mouse.click(x + width - 12, y + 20)
    await page.waitForFunction(`/^#.events.minute=\\d+0000$/.test(location.hash)`)
    await shows(page, 'Of the minute that began at')
    await press(page, 'Show all')
    await page.waitForFunction(`location.hash === '#/events'`)
    expect(complaints).toEqual([])
  },
  limitMs,
)

testInBrowser(
  "a server's life is a bar, each thing that happened is told once, and its log is wrapped and downloaded",
  async () => {
    const long = `start ${'x'.repeat(3_000)} end`
    const lines = ['one', long]
    const { fleet, backend, url } = await memoryHost(
      {},
      {},
      {
        async *logs() {
          yield* lines
        },
      },
    )
    await fleet.builds.create(build({ standingBy: 1, max: 1 }))
    await standingBy(fleet, 1)
    const { server } = await fleet.allocate({ buildID, sessionID, initialPlayers: [] }, { confirm: true })
    const { page } = await open(`${url}/#/servers/${server.namespace}/${server.name}`)
    const life = (text: string) => page.waitForFunction(`/${text}/.test(document.querySelector('.life')?.ariaLabel)`)
    await life('^Its life: starting \\d+ s, ready \\d+ s, match \\d+ s$')
    const told = () => page.$$eval('.timeline li > p:first-child', (all) => all.map(({ textContent }) => textContent))
    await shows(page, `was allocated to session ${sessionID}`)
    expect((await told()).filter((text) => text?.includes('Active') || text?.includes('allocated'))).toHaveLength(1)

    const cut = `document.querySelector('.log .line:nth-child(2)')`
    await page.waitForFunction(`${cut}?.scrollWidth > 3000`)
    await press(page, 'Wrap')
    await page.waitForFunction(
      `document.querySelector('.log').scrollWidth <= document.querySelector('.log').clientWidth`,
    )
    expect(await page.evaluate(`${cut}.textContent`)).toBe(long)
    expect(await violations(page)).toEqual([])
    // What is downloaded is the whole log.
    await page.evaluate(`
      HTMLAnchorElement.prototype.click = function () { window.saved = this.download }
      URL.createObjectURL = (blob) => (window.blob = blob, 'about:blank')`)
    await press(page, 'Download')
    await page.waitForFunction('window.blob !== undefined')
    expect(await page.evaluate('window.blob.text()')).toBe(`one\n${long}\n`)
    expect(await page.evaluate('window.saved')).toBe(`${server.name}.log`)

    backend.server(server).exit(3)
    await life(', match \\d+ s, ending \\d+ s, exit 3$')
    await page.waitForSelector('.life .end.bad')
    expect((await told()).filter((text) => text?.includes('Terminating'))).toHaveLength(0)
  },
  limitMs,
)
