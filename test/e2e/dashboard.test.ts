/** The dashboard of the bundled server, over its real backend: a server stands by, is allocated, prints, and ends. */
import { randomUUID } from 'node:crypto'
import { expect } from 'vitest'
import { testInBrowser } from '../dashboard/browser.js'
import { browserOfFile, press, shows, violations } from '../dashboard/open-page.js'
import { buildOf, createBuild, say } from './client.js'
import { startHost } from './host.js'
import { portRangeText } from './port-ranges.js'
import { workplace } from './workplace.js'

const { open } = browserOfFile()
const limitMs = 400_000
const buildID = randomUUID()

testInBrowser(
  'allocates a server whose log is open, and ends its session',
  async () => {
    const { dataDir } = await workplace()
    const host = await startHost({ DATA_DIR: dataDir, PORT_RANGE: portRangeText('dashboard'), SAMPLE: 'off' })
    const { page, context, complaints } = await open(`${host.management}/`)
    page.setDefaultTimeout(120_000)
    await shows(page, 'Backend works')
    await createBuild(host, buildOf({ name: 'arena', buildID, standingBy: 1, max: 2 }))
    await page.waitForSelector('.bar[aria-label^="1 standing by"]')
    await page.locator('.build h2 a').click()
    await page.locator('.row.servers a').click()
    await shows(page, 'listening on 7777')
    await shows(page, 'standing by')

    const second = await context.newPage()
    second.setDefaultTimeout(120_000)
    await second.goto(`${host.management}/#/try`)
    await press(second, 'Allocate')
    await shows(second, 'Players connect to:')
    const address = await second.$eval('.answer code', (code) => code.textContent ?? '')
    await second.close()

    await shows(page, 'was allocated to session')
    await shows(page, 'begins, expecting amie, bob')
    await shows(page, address)
    expect(await say(Number(address.split(':').at(-1)), 'hello zoe')).toContain('players amie,bob')
    expect(await violations(page)).toEqual([])

    await press(page, 'End session')
    await page.locator('dialog button[type=submit]').click()
    await page.waitForFunction(`document.querySelector('.page-title .tag').innerText === 'ended'`)
    await page.evaluate(`location.hash = '#/builds/default/arena'`)
    await page.waitForSelector('.bar[aria-label^="1 standing by"]')
    expect(complaints).toEqual([])
  },
  limitMs,
)
