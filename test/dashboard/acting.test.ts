/** Actions in the page: what they say when they fail late, edits that are not lost, and where the focus goes. */
import { expect } from 'vitest'
import { build, buildID, sessionID, standingBy } from '../http/fleet.js'
import { testInBrowser } from './browser.js'
import { memoryHost } from './memory-host.js'
import { browserOfFile, press, shows, violations } from './open-page.js'

const { open } = browserOfFile()
const limitMs = 300_000

testInBrowser(
  'a drain that is refused after its dialog has closed says so',
  async () => {
    let refuse: (verdict: boolean) => void = () => {}
    const host = await memoryHost({
      authorize: (_, { name }) => (name === 'drainBuild' ? new Promise((resolve) => (refuse = resolve)) : true),
    })
    await host.fleet.builds.create(build())
    await standingBy(host.fleet, 2)
    const { page } = await open(`${host.url}/#/builds/default/arena`)
    // What the page asks about its rights waits for the verdict, too.
    await press(page, 'Drain')
    await page.locator('dialog button[type=submit]').click()
    await page.waitForFunction(`document.querySelector('dialog') === null`)
    refuse(false)
    await shows(page, 'The drain of arena has failed: the operation drainBuild is not allowed')
    expect(await violations(page)).toEqual([])
    await press(page, 'Dismiss')
    await page.waitForFunction(`!document.body.innerText.includes('has failed')`)
  },
  limitMs,
)

/** Presses Scale and looks at the dialog in the same moment in which it is in the document. */
const scaleAndLook = `new Promise((resolve) => {
  new MutationObserver((_, observer) => {
    const dialog = document.querySelector('dialog')
    if (dialog === null) return
    observer.disconnect()
    resolve({ isOpen: dialog.open, hasFocus: dialog.contains(document.activeElement) })
  }).observe(document.body, { childList: true, subtree: true })
  const buttons = [...document.querySelectorAll('button')]
  buttons.find(({ textContent }) => textContent === 'Scale').click()
})`

testInBrowser(
  'a build is scaled by dragging, or with the arrow keys',
  async () => {
    const { fleet, url } = await memoryHost()
    await fleet.builds.create(build({ standingBy: 1, max: 4 }))
    await standingBy(fleet, 1)
    const { page } = await open(`${url}/#/builds/default/arena`)
    await shows(page, 'Scale')
    expect(await page.evaluate(scaleAndLook)).toEqual({ isOpen: true, hasFocus: true })
    const slider = await page.waitForSelector('dialog input[type=range][aria-label="Standing by, from 0 to 4"]')
    await slider?.focus()
    await page.keyboard.press('ArrowUp')
    await shows(page, 'Starts 1 server.')
    expect(await page.$eval('dialog input[type=number]', ({ value }) => value)).toBe('2')
    expect(await violations(page)).toEqual([])
    const box = await slider?.boundingBox()
    if (!box) throw new Error('the slider has no place')
    const y = box.y + box.height / 2
    await page.mouse.move(box.x + box.width / 2, y)
    await page.mouse.down()
    await page.mouse.move(box.x + box.width - 1, y, { steps: 5 })
    await page.mouse.up()
    await shows(page, 'Starts 3 servers.')
    await page.locator('dialog button[type=submit]').click()
    await shows(page, '4 of 4')
    expect((await fleet.builds.get('arena')).spec).toMatchObject({ standingBy: 4, max: 4 })
  },
  limitMs,
)

/** Leaves in the same moment in which the editor has gone from the document. */
const cancelAndAskToLeave = `new Promise((resolve) => {
  const leave = (_, observer) => {
    if (document.querySelector('pre.spec') === null) return
    observer.disconnect()
    const isFree = dispatchEvent(new Event('beforeunload', { cancelable: true }))
    resolve(isFree ? 'leaves without a question' : 'is asked')
  }
  new MutationObserver(leave).observe(document.body, { childList: true, subtree: true })
  const buttons = [...document.querySelectorAll('button')]
  buttons.find(({ textContent }) => textContent === 'Cancel').click()
})`

testInBrowser(
  'an edit survives leaving the view and a reload, and says when the spec has changed meanwhile',
  async () => {
    const { fleet, url } = await memoryHost()
    await fleet.builds.create(build())
    const { page } = await open(`${url}/#/builds/default/arena`)
    await press(page, 'Edit')
    const { spec } = await fleet.builds.get('arena')
    const edited = JSON.stringify({ ...spec, standingBy: 1 }, null, 2)
    await page.locator('textarea').fill(edited)
    await shows(page, '+   "standingBy": 1,')
    await page.evaluate(`location.hash = '#/'`)
    await page.waitForSelector('.build h2 a')
    await page.goBack()
    await shows(page, 'Your last edit of this spec is not applied.')
    await page.reload()
    await shows(page, 'Your last edit of this spec is not applied.')
    expect(await violations(page)).toEqual([])
    await press(page, 'Continue editing')
    expect(await page.$eval('textarea', ({ value }) => value)).toBe(edited)
    await fleet.builds.patch('arena', { max: 2 })
    await shows(page, 'The spec has changed since you began.')
    await shows(page, '+   "max": 3,')
    expect(await violations(page)).toEqual([])
    expect(await page.evaluate(cancelAndAskToLeave)).toBe('leaves without a question')
    await page.reload()
    await page.waitForSelector('pre.spec')
    expect(await page.evaluate(`document.body.innerText.includes('not applied')`)).toBe(false)
    expect(await page.evaluate('sessionStorage.length')).toBe(0)
  },
  limitMs,
)

testInBrowser(
  'the editor shows each change in its place, with what it does to the servers that there are',
  async () => {
    const { fleet, url } = await memoryHost()
    await fleet.builds.create(build({ max: 6 }))
    await standingBy(fleet, 2)
    await fleet.allocate({ buildID, sessionID, initialPlayers: [] }, { confirm: true })
    await standingBy(fleet, 2)
    const { page } = await open(`${url}/#/builds/default/arena?edit=spec`)
    await page.waitForSelector('textarea')
    const { spec } = await fleet.builds.get('arena')
    const template = { spec: { containers: [{ name: 'game', command: ['game', '--new'] }] } }
    await page.locator('textarea').fill(JSON.stringify({ ...spec, standingBy: 6, template }))
    await shows(page, '+             "--new"')
    const hunks = () =>
      page.$$eval('.hunk', (all) =>
        all.map((one) => [...one.querySelectorAll('p')].map(({ textContent }) => textContent)),
      )
    const scaled = 'Starts 3 servers, not 4: max is 6, and 1 is in use. Matches go on in any case.'
    const replaced = 'Replaces 2 idle servers now, a few at a time, and 1 after its match.'
    expect(await hunks()).toEqual([
      ['standingBy line 1', scaled],
      ['template line 12', replaced],
    ])
    expect(await violations(page)).toEqual([])
    expect(page.url()).toBe(`${url}/#/builds/default/arena`)
  },
  limitMs,
)

testInBrowser(
  'the focus follows the reader: into a view, a dialog and an editor, and back',
  async () => {
    const { fleet, url } = await memoryHost()
    await fleet.builds.create(build())
    await standingBy(fleet, 2)
    const { page } = await open(`${url}/`)
    await page.locator('.build h2 a').click()
    await shows(page, 'build in default')
    await page.waitForFunction(`document.activeElement.tagName === 'MAIN'`)

    await press(page, 'Scale')
    await page.waitForSelector('dialog[open]')
    await page.keyboard.press('Escape')
    await page.waitForFunction(`document.querySelector('dialog') === null`)
    await page.waitForFunction(`document.activeElement.textContent === 'Scale'`)
    await page.keyboard.press('Enter')
    await page.locator('dialog input').fill('1')
    await page.locator('dialog button[type=submit]').click()
    await page.waitForFunction(`document.querySelector('dialog') === null`)
    await page.waitForFunction(`document.activeElement.textContent === 'Scale'`)

    await press(page, 'Edit')
    await page.waitForFunction(`document.activeElement.tagName === 'TEXTAREA'`)
    await press(page, 'Cancel')
    await page.waitForFunction(`document.activeElement.textContent === 'Edit'`)

    await press(page, 'Delete')
    await page.locator('dialog input').fill('arena')
    await page.locator('dialog button[type=submit]').click()
    await shows(page, 'No builds yet')
    await page.waitForFunction(`document.activeElement.tagName === 'MAIN'`)
  },
  limitMs,
)
