/** Opens the page in the browser of a test file, and looks at what it shows. */
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import type { Browser, BrowserContext, ConsoleMessage, Page } from 'puppeteer-core'
import { afterAll, beforeAll, onTestFinished } from 'vitest'
import { hasBrowser, openBrowser } from './browser.js'

const axe = createRequire(import.meta.url).resolve('axe-core/axe.min.js')

export interface Opened {
  readonly page: Page
  /** With cookies of its own. */
  readonly context: BrowserContext
  /** What the browser complains about: refused requests, errors in scripts, breaches of the policy. */
  readonly complaints: string[]
}

/** One browser for all tests of the file that calls this. */
export function browserOfFile(): { open(url: string): Promise<Opened> } {
  let browser: Browser | undefined
  beforeAll(async () => {
    if (hasBrowser) browser = await openBrowser()
  })
  afterAll(async () => {
    await browser?.close()
  })
  return {
    async open(url) {
      if (browser === undefined) throw new Error('no browser')
      const context = await browser.createBrowserContext()
      onTestFinished(() => context.close())
      const page = await context.newPage()
      page.setDefaultTimeout(120_000)
      const complaints: string[] = []
      page.on('pageerror', (error) => complaints.push(String(error)))
      page.on('console', (message: ConsoleMessage) => {
        if (message.type() === 'error' && !isGone(message) && !isOfMachine(message))
          complaints.push(`${message.text()} ${message.location().url ?? ''}`)
      })
      await page.goto(url)
      return { page, context, complaints }
    },
  }
}

/** A session, server or build may be gone by the time the page asks for it. */
function isGone(message: ConsoleMessage): boolean {
  const { url = '' } = message.location()
  return message.text().includes('404') && /\/(sessions|gameservers|gameserverbuilds)\//.test(url)
}

/** Chromium gives up requests whenever the machine gets a network interface, as with each container; the page sends them again. */
function isOfMachine(message: ConsoleMessage): boolean {
  return message.text().includes('net::ERR_NETWORK_CHANGED')
}

/** Waits until the text is on the page. */
export async function shows(page: Page, text: string): Promise<void> {
  try {
    await page.waitForFunction(`document.body.innerText.includes(${JSON.stringify(text)})`)
  } catch (cause) {
    throw new Error(`${text} is not in: ${String(await page.evaluate('document.body.innerText'))}`, { cause })
  }
}

/** Presses the button with this name, by a key: the mouse would miss it when a line that comes or goes moves it. */
export async function press(page: Page, name: string): Promise<void> {
  const button = page.locator(`::-p-aria([name="${name}"][role="button"])`)
  const handle = await button
    .filter((element) => (element as { readonly disabled?: boolean }).disabled !== true)
    .waitHandle()
  await handle.press('Enter')
}

/** What axe finds wrong with the page: contrast, names, roles, links that are told apart only by colour, targets that are too small. */
export async function violations(page: Page): Promise<unknown> {
  // The page's policy allows no foreign script, so it goes in through the debugger.
  await page.evaluate(await readFile(axe, 'utf8'))
  return page.evaluate(`axe.run({ runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] })
    .then(({ violations }) => violations.map(({ id, nodes }) => id + ': ' + nodes.map(({ html }) => html).join(' ')))`)
}
