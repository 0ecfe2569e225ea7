/** A new fleet in the page: from nothing to the first build, and on to the first allocation. */
import { expect } from 'vitest'
import type { Authorize } from '../../src/http/index.js'
import { build, buildID, sessionID, standingBy } from '../http/fleet.js'
import { testInBrowser } from './browser.js'
import { gate, memoryHost } from './memory-host.js'
import { browserOfFile, press, shows, violations } from './open-page.js'

const { open } = browserOfFile()
const limitMs = 300_000
const panel = '.first-run'

testInBrowser(
  'an empty fleet is led to its first build and its first allocation, and no further',
  async () => {
    const { backend, fleet, url } = await memoryHost({}, { autoReady: false })
    const { page, complaints } = await open(`${url}/`)
    await shows(page, 'No builds yet')
    expect(await page.$eval(`${panel} [aria-current=step]`, (step) => step.textContent)).toBe('Create a build')
    expect(await violations(page)).toEqual([])

    await fleet.builds.create(build({ standingBy: 1 }))
    await shows(page, 'The first servers are starting')
    expect(await violations(page)).toEqual([])
    await page.waitForSelector('.bar[aria-label^="1 "]')
    const [server] = await fleet.servers.list()
    await page.waitForSelector('.bar[aria-label^="1 initializing"]')
    backend.server(server?.metadata.name ?? '').ready()

    await shows(page, 'Ready for the first match')
    await shows(page, `"buildID": "${buildID}"`)
    await shows(page, 'curl -X POST')
    await shows(page, 'fleet.allocate(')
    expect(await violations(page)).toEqual([])
    await page.setViewport({ width: 380, height: 800 })
    await page.waitForFunction(`document.documentElement.scrollWidth <= 380`)
    expect(await violations(page)).toEqual([])
    await press(page, 'Allocate')
    await shows(page, 'Players connect to:')
    await shows(page, 'The first match has a server')
    expect((await fleet.sessions.list()).map((session) => session.initialPlayers)).toEqual([['amie', 'bob']])
    expect(await violations(page)).toEqual([])
    await press(page, 'Done')
    await page.waitForFunction(`document.querySelector('${panel}') === null`)
    await page.reload()
    await shows(page, '1 active')
    expect(await page.$(panel)).toBeNull()
    expect(complaints).toEqual([])
  },
  limitMs,
)

testInBrowser(
  'the first allocation is not offered after one from elsewhere, nor to a reader who has hidden it or may not allocate',
  async () => {
    const readOnly = { isOn: false }
    const { fleet, url } = await memoryHost({ authorize: (_, { role }) => !readOnly.isOn || role === 'read' })
    await fleet.builds.create(build())
    await standingBy(fleet, 2)
    const { page } = await open(`${url}/`)
    await shows(page, 'Ready for the first match')
    readOnly.isOn = true
    await page.reload()
    await shows(page, '2 standing by')
    await page.waitForFunction(`document.querySelector('${panel}') === null`)
    readOnly.isOn = false
    await page.reload()
    await press(page, 'Hide')
    await page.waitForFunction(`document.querySelector('${panel}') === null`)
    await page.reload()
    await shows(page, '2 standing by')
    expect(await page.$(panel)).toBeNull()

    const { page: other } = await open(`${url}/`)
    await shows(other, 'Ready for the first match')
    await fleet.allocate({ buildID, sessionID, initialPlayers: [] }, { confirm: true })
    await other.waitForFunction(`document.querySelector('${panel}') === null`)
  },
  limitMs,
)

testInBrowser(
  'an answer stays although another caller is served first, and a refusal is not called a match',
  async () => {
    const { pass, held, release } = gate()
    let calls = 0
    const authorize: Authorize = async (request, { name }) => {
      if (name !== 'allocate' || request.method !== 'POST') return true
      await pass()
      return ++calls === 1
    }
    const { fleet, url } = await memoryHost({ authorize })
    await fleet.builds.create(build({ standingBy: 1, max: 2 }))
    const { page } = await open(`${url}/`)
    await shows(page, 'Ready for the first match')
    await press(page, 'Allocate')
    await held
    await fleet.allocate({ buildID, sessionID, initialPlayers: [] })
    await shows(page, '1 active')
    release()
    await shows(page, 'Players connect to:')
    await shows(page, 'The first match has a server')
    await press(page, 'Allocate')
    await page.waitForSelector('.problem.answer')
    expect(await page.$eval(`${panel} h2`, (title) => title.textContent)).toBe('Ready for the first match')
  },
  limitMs,
)
