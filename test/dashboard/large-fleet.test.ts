/** What the page holds does not grow with the fleet or with time: 10,000 servers, and more changes than it keeps. */
import type { Page } from 'puppeteer-core'
import { expect } from 'vitest'
import { testInBrowser } from './browser.js'
import { largeFleet } from './large-fleet.js'
import { listening } from './memory-host.js'
import { browserOfFile, shows } from './open-page.js'

const { open } = browserOfFile()
const limitMs = 120_000

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
