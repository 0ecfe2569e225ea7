/** Dialogs say what they are about, begin at the control that is meant or safe, can be left, and are not cut. */
import type { Page } from 'puppeteer-core'
import { expect } from 'vitest'
import { build, buildID, sessionID, standingBy } from '../http/fleet.js'
import { testInBrowser } from './browser.js'
import { memoryHost } from './memory-host.js'
import { browserOfFile, press, shows } from './open-page.js'

const { open } = browserOfFile()
const limitMs = 300_000

/** Its title, and what has the focus: a button by its text, a field by its type. */
const dialog = (page: Page) =>
  page.evaluate(`(() => {
    const { activeElement: focused } = document
    const on = focused.tagName === 'INPUT' ? focused.type : focused.textContent
    return [document.querySelector('dialog[open] h2').textContent, on]
  })()`)

async function opened(page: Page, name: string): Promise<unknown> {
  await press(page, name)
  await page.waitForSelector('dialog[open]')
  const found = await dialog(page)
  await press(page, 'Cancel')
  await page.waitForFunction(`document.querySelector('dialog') === null`)
  return found
}

testInBrowser(
  'dialogs name their object, begin at a field, at what is meant, or where it is dangerous at Cancel, and can be left',
  async () => {
    const { fleet, url } = await memoryHost()
    await fleet.builds.create(build())
    await standingBy(fleet, 2)
    const { server } = await fleet.allocate({ buildID, sessionID, initialPlayers: ['amie'] }, { confirm: true })
    const { page } = await open(`${url}/#/builds/default/arena`)
    await shows(page, 'build in default')
    expect(await opened(page, 'Scale')).toEqual(['Scale arena', 'number'])
    expect(await opened(page, 'Scale max up to 4')).toEqual(['Scale arena', 'number'])
    expect(await opened(page, 'Drain')).toEqual(['Drain arena', 'Drain'])
    expect(await opened(page, 'Delete')).toEqual(['Delete arena', 'text'])
    await page.evaluate(`location.hash = '#/servers/default/${server.name}'`)
    await shows(page, 'server of arena')
    expect(await opened(page, 'Drain')).toEqual([`Drain ${server.name}`, 'Drain'])
    expect(await opened(page, 'Terminate')).toEqual([`Terminate ${server.name}`, 'Cancel'])
    expect(await opened(page, 'End session')).toEqual([`End session ${sessionID} on ${server.name}`, 'Cancel'])
    expect((await fleet.sessions.list()).map(({ state }) => state)).toEqual(['Active'])
    expect((await fleet.builds.get('arena')).status.conditions).toBeUndefined()
  },
  limitMs,
)

testInBrowser(
  'the dialog that ends a session from the list shows all of its text, on a wide and on a narrow screen',
  async () => {
    const { fleet, url } = await memoryHost()
    await fleet.builds.create(build())
    await standingBy(fleet, 2)
    const { server } = await fleet.allocate({ buildID, sessionID, initialPlayers: ['amie'] }, { confirm: true })
    const { page } = await open(`${url}/#/sessions`)
    for (const width of [1_280, 380]) {
      await page.setViewport({ width, height: 800 })
      await press(page, `End the session ${sessionID} on ${server.name}`)
      await shows(page, 'the server is replaced after its grace period.')
      const cut = `[...document.querySelectorAll('dialog, dialog *')]
        .filter((part) => part.scrollWidth > part.clientWidth && getComputedStyle(part).display !== 'inline')
        .map((part) => part.outerHTML)`
      expect(await page.evaluate(cut), String(width)).toEqual([])
      await press(page, 'Cancel')
      await page.waitForFunction(`document.querySelector('dialog') === null`)
    }
  },
  limitMs,
)
