/** What the page shows before its script has run, and that nothing moves when it has. */
import type { HTTPRequest } from 'puppeteer-core'
import { expect } from 'vitest'
import { testInBrowser } from './browser.js'
import { memoryHost } from './memory-host.js'
import { browserOfFile } from './open-page.js'

const { open } = browserOfFile()
const limitMs = 300_000

/** Where the parts of the head are. */
const places = `[...document.querySelectorAll('header.top, .brand, .brand img, nav a, .search input, header button')]
  .map((part) => {
    const { x, y, width, height } = part.getBoundingClientRect()
    return [part.tagName, x, y, width, height].join(' ')
  })`

testInBrowser(
  'the frame of the page is there before its script, and stays where it is',
  async () => {
    const { url } = await memoryHost()
    const { page, complaints } = await open('about:blank')
    for (const width of [1_280, 380]) {
      await page.setViewport({ width, height: 800 })
      await page.setRequestInterception(true)
      const script = new Promise<HTTPRequest>((resolve) => {
        page.on('request', (request) => {
          if (request.url().endsWith('/dashboard/app.js')) resolve(request)
          else void request.continue()
        })
      })
      const opened = page.goto(`${url}/`)
      const held = await script
      await page.waitForFunction(`document.querySelector('.loading')?.innerText === 'Reading the fleet…'`)
      await page.waitForFunction(`performance.getEntriesByName('first-contentful-paint').length === 1`)
      await page.waitForFunction(`document.querySelector('.brand img').complete`)
      const before = await page.evaluate(places)
      expect(before).toHaveLength(11)
      await held.continue()
      await opened
      await page.waitForSelector('.connection.good')
      await page.waitForFunction(`document.querySelector('.brand img').complete`)
      expect(await page.evaluate(places)).toEqual(before)
      page.removeAllListeners('request')
      await page.setRequestInterception(false)
    }
    expect(complaints).toEqual([])
  },
  limitMs,
)
