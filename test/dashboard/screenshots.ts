/** `npm run screenshots`: makes the pictures of the dashboard in docs/images, from a fleet on processes. */
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Browser } from 'puppeteer-core'
import { root } from '../package/sources.js'
import { openBrowser } from './browser.js'
import { exampleFleet } from './example-fleet.js'

interface Shot {
  readonly name: string
  readonly path: string
  readonly scheme: 'light' | 'dark'
  readonly width: number
  readonly height: number
  /** What has to be there. */
  readonly shows: string
}

const folder = process.env['SCREENSHOTS'] ?? join(root, 'docs/images')
await mkdir(folder, { recursive: true })
const example = await exampleFleet('30600-30699')
const browser = await openBrowser()
try {
  const [active] = await example.fleet.sessions.list()
  const server = active?.server.name ?? ''
  const wide = { width: 1280, height: 860 }
  const shots: readonly Shot[] = [
    { name: 'overview-light', path: '#/', scheme: 'light', ...wide, shows: '.build' },
    { name: 'overview-narrow', path: '#/', scheme: 'dark', width: 380, height: 860, shows: '.build' },
    { name: 'build-dark', path: '#/builds/default/arena', scheme: 'dark', ...wide, shows: '.row.servers:nth-child(3)' },
    { name: 'server-light', path: `#/servers/default/${server}`, scheme: 'light', ...wide, shows: '.log .line' },
  ]
  for (const shot of shots) await take(browser, example.url, shot)
} finally {
  await browser.close()
  await example.close()
}

async function take(browser: Browser, url: string, { name, path, scheme, width, height, shows }: Shot): Promise<void> {
  const page = await browser.newPage()
  page.on('console', (message) => console.error(message.text()))
  page.on('pageerror', (error) => console.error(String(error)))
  await page.setViewport({ width, height })
  await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }])
  await page.goto(`${url}${path}`)
  await page.waitForSelector(shows)
  await page.waitForNetworkIdle({ idleTime: 400, concurrency: 2 })
  // As WebP, a picture of the page is a few dozen kilobytes.
  await page.screenshot({ path: join(folder, `${name}.webp`), type: 'webp', quality: 80 })
  await page.close()
  console.log(`docs/images/${name}.webp`)
}
