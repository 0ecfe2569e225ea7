/** What the page holds does not grow with the fleet or with time: 10,000 servers, and more changes than it keeps. */
import type { Page } from 'puppeteer-core'
import { expect } from 'vitest'
import { testInBrowser } from './browser.js'
import { largeFleet } from './large-fleet.js'
import { listening } from './memory-host.js'
import { browserOfFile, press, shows } from './open-page.js'

const { open } = browserOfFile()
const limitMs = 300_000

interface Held {
  readonly elements: number
  readonly listeners: number
}

async function held(page: Page): Promise<Held> {
  const session = await page.createCDPSession()
  await session.send('HeapProfiler.collectGarbage')
  const { JSEventListeners: listeners = 0 } = await page.metrics()
  await session.detach()
  return { elements: Number(await page.evaluate(`document.querySelectorAll('*').length`)), listeners }
}

testInBrowser(
  'with 10,000 servers and 40,000 changes, the page holds as many elements, listeners and events as with few',
  async () => {
    const fleet = largeFleet()
    const url = await listening(fleet.server.listen(0, '127.0.0.1'))
    const { page, complaints } = await open(`${url}/#/builds/default/arena-3`)
    await shows(page, '1,000 servers')
    const atFirst = await held(page)
    expect(atFirst.elements).toBeLessThan(700)

    for (let n = 0; n < 20; n++) await fleet.change(2_000)
    // Each server of the build has changed its state four times.
    await page.waitForFunction(`document.querySelector('.bar').ariaLabel.startsWith('1000 standing by')`)
    const later = await held(page)
    expect(Math.abs(later.elements - atFirst.elements)).toBeLessThan(20)
    expect(later.listeners).toBeLessThanOrEqual(atFirst.listeners)

    await page.evaluate(`location.hash = '#/events'`)
    await shows(page, '10,000 events')
    await shows(page, '30,000 earlier events are not kept.')
    expect(Number(await page.evaluate(`document.querySelectorAll('*').length`))).toBeLessThan(700)
    expect(complaints).toEqual([])
  },
  limitMs,
)

testInBrowser(
  'reads the newest 500 events when it opens, and older ones on scroll, on request and for a filter',
  async () => {
    const fleet = largeFleet()
    fleet.log(2_200)
    const url = await listening(fleet.server.listen(0, '127.0.0.1'))
    const { page, complaints } = await open(`${url}/#/events`)
    const asked: string[] = []
    page.on('request', (request) => {
      if (request.url().includes('/events?')) asked.push(new URL(request.url()).search)
    })
    await shows(page, 'The newest 500 events')
    const scrollToEnd = `document.querySelector('.events-table').scrollTop = 1e6`
    await page.evaluate(scrollToEnd)
    await shows(page, 'The newest 1,000 events')
    await page.evaluate(scrollToEnd)
    await shows(page, 'The newest 1,500 events')
    await press(page, 'Read older')
    await shows(page, 'The newest 2,000 events')
    expect(asked).toEqual(['?from=1201&to=1700', '?from=701&to=1200', '?from=201&to=700'])
    await press(page, 'Pause')
    await page.evaluate(`location.hash = '#/events?text=arena-1-0'`)
    // It changed at number 1, among the oldest.
    await shows(page, '1 event')
    await shows(page, 'arena-1-0 went from StandingBy to Active')
    expect(asked).toHaveLength(4)
    await fleet.change(1)
    await page.evaluate(`location.hash = '#/events'`)
    await press(page, 'Resume (1)')
    await shows(page, '2,201 events')
    expect(complaints).toEqual([])
  },
  limitMs,
)

testInBrowser(
  'opening with 10,000 servers and a full log moves less than 500 KB',
  async () => {
    const fleet = largeFleet()
    fleet.log(10_000)
    const url = await listening(fleet.server.listen(0, '127.0.0.1'))
    const { page } = await open('about:blank')
    const session = await page.createCDPSession()
    await session.send('Network.enable')
    let bytes = 0
    session.on('Network.dataReceived', ({ encodedDataLength }) => (bytes += encodedDataLength))
    await page.goto(`${url}/#/builds/default/arena-3`)
    await shows(page, '1,000 servers')
    await page.goto(`${url}/#/events`)
    await shows(page, 'The newest 500 events')
    expect(bytes).toBeGreaterThan(100_000)
    expect(bytes).toBeLessThan(500_000)
  },
  limitMs,
)
