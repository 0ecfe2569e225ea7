/** Servers that run several sessions: each session and each player counts once, everywhere. */
import type { Page } from 'puppeteer-core'
import { expect } from 'vitest'
import { build, buildID, standingBy } from '../http/fleet.js'
import { testInBrowser } from './browser.js'
import { memoryHost } from './memory-host.js'
import { browserOfFile, press, shows, violations } from './open-page.js'

const { open } = browserOfFile()
const limitMs = 300_000
const ids = ['one', 'two', 'three'].map((name, index) => `0b7f9a52-58f4-4c0e-9a2c-6d1f0e2b7c3${index}-${name}`)

const leave = async (page: Page) => {
  await press(page, 'Cancel')
  await page.waitForFunction(`document.querySelector('dialog') === null`)
}

testInBrowser(
  'players count once for each server, a drain and an end count sessions, and each session has its row',
  async () => {
    const { backend, fleet, url } = await memoryHost({}, { takesSeveral: true })
    await fleet.builds.create(build({ standingBy: 1, max: 2, sessionsPerServer: 4 }))
    await standingBy(fleet, 1)
    const allocate = (sessionID: string) =>
      fleet.allocate({ buildID, sessionID, initialPlayers: ['amie'] }, { confirm: true, waitMs: 20_000 })
    const { server } = await allocate(ids[0] ?? '')
    await allocate(ids[1] ?? '')
    const { page } = await open(`${url}/#/players`)
    backend.server(server).players(['amie', 'bob', 'cleo'])
    await shows(page, '3 players connected')
    expect(await page.$$('.row.players:not(.head)')).toHaveLength(3)
    await shows(page, 'one of 2')
    // Those who come after the page was opened, too.
    backend.server(server).players(['amie', 'bob'])
    await shows(page, '2 players connected')

    await page.evaluate(`location.hash = '#/'`)
    await page.waitForFunction(`[...document.querySelectorAll('.tiles div')].some((tile) =>
      tile.querySelector('dt').textContent === 'players' && tile.querySelector('dd').textContent === '2')`)
    await allocate(ids[2] ?? '')
    await page.evaluate(`location.hash = '#/sessions'`)
    await shows(page, '3 sessions')
    await shows(page, '2 on its server')

    await page.evaluate(`location.hash = '#/builds/default/arena'`)
    await shows(page, '3 sessions:')
    for (const id of ids) await shows(page, id)
    await press(page, 'Drain')
    await shows(page, 'Lets 3 matches on 1 server with 2 players go on until they are over.')
    await page.locator('dialog input[type=checkbox]').click()
    await shows(page, 'Ends 3 matches on 1 server with 2 players.')
    await leave(page)
    await press(page, 'Delete')
    await shows(page, '3 matches on 1 server with 2 players will be ended.')
    await leave(page)

    await page.evaluate(`location.hash = '#/servers/default/${server.name}'`)
    await page.waitForFunction(`document.querySelectorAll('.row.own-sessions:not(.head)').length === 3`)
    const rows = await page.$$eval('.row.own-sessions:not(.head)', (all) => all.map((one) => one.textContent))
    for (const [index, id] of ids.entries()) expect(rows[index]).toContain(id)
    // Each with the time at which it was allocated, and not its server.
    const times = await page.$$eval('.row.own-sessions time', (all) => all.map((one) => one.dateTime))
    expect(times).toEqual((await fleet.sessions.list()).map(({ startedAt }) => startedAt))
    expect(new Set(times).size).toBe(3)
    await page.waitForSelector(`::-p-aria([name="Copy the session ${ids[1]}"][role="button"])`)
    expect(await violations(page)).toEqual([])
    await press(page, 'Terminate')
    await shows(page, 'Its 3 matches with 2 players will be ended.')
    await leave(page)
    expect(await page.$$eval('.page-title button', (all) => all.map((one) => one.textContent))).toEqual([
      ...['Drain', 'Terminate'],
    ])
    await press(page, `End the session ${ids[1]} on ${server.name}`)
    await shows(page, `End session ${ids[1]} on ${server.name}`)
    await shows(page, 'Asks the game to end this session. The other 2 sessions on its server go on.')
    expect(await violations(page)).toEqual([])
    await page.locator('dialog button[type=submit]').click()
    await page.waitForFunction(`document.querySelector('dialog') === null`)
    expect((await fleet.sessions.list()).find(({ sessionID }) => sessionID === ids[1])?.state).not.toBe('Active')
  },
  limitMs,
)
