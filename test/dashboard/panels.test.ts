/** Panels of the page that few fleets show at a time: a rolling change, announced maintenance, sessions to end, conditions. */
import { expect } from 'vitest'
import { FleetError } from '../../src/index.js'
import { build, buildID, sessionID, standingBy } from '../http/fleet.js'
import { testInBrowser } from './browser.js'
import { memoryHost } from './memory-host.js'
import { browserOfFile, press, shows, violations } from './open-page.js'

const { open } = browserOfFile()
const limitMs = 300_000
const hostile = '<img src=x onerror="document.title=`owned`"><script>document.title=`owned`</script>'

testInBrowser(
  'a rolling change shows how many servers have the current version, until all of them have',
  async () => {
    const { fleet, url } = await memoryHost()
    await fleet.builds.create(build())
    await standingBy(fleet, 2)
    await fleet.allocate({ buildID, sessionID, initialPlayers: [] }, { confirm: true })
    await standingBy(fleet, 2)
    const { page } = await open(`${url}/#/builds/default/arena`)
    await page.waitForSelector('.bar[aria-label^="1 active, 2 standing by"]')
    expect(await page.$('.rollout')).toBeNull()
    const template = { spec: { containers: [{ name: 'game', command: ['game', '--new'] }] } }
    await fleet.builds.update('arena', { template })
    // The server with the match stays.
    await page.waitForSelector('progress[aria-label="2 of 3 servers run the current version"]')
    await shows(page, '1 on the version before → 2 of 3 servers on the current version')
    await shows(page, 'It waits for the end of the match on 1 server.')
    expect(await violations(page)).toEqual([])
    await page.evaluate(`location.hash = '#/'`)
    await shows(page, 'rolling update: 2 of 3 servers')
    await page.goBack()
    await fleet.sessions.end(sessionID)
    await page.waitForFunction(`document.querySelector('.page-title') && !document.querySelector('.rollout')`)
  },
  limitMs,
)

testInBrowser(
  "a server's data are shown, and change as callers and operators change them",
  async () => {
    const { fleet, url } = await memoryHost()
    const counters = { rooms: { count: 0, capacity: 10 } }
    const lists = { maps: { values: ['dust', hostile], capacity: 5 } }
    await fleet.builds.create(build({ standingBy: 1, counters, lists }))
    await standingBy(fleet, 1)
    const [server] = await fleet.servers.list()
    const name = server?.metadata.name ?? ''
    const { page, complaints } = await open(`${url}/#/servers/default/${name}`)
    const shown = `[...document.querySelectorAll('section[aria-label=Data] div')].map((fact) => fact.textContent)`
    const showsData = (...facts: readonly string[]) =>
      page.waitForFunction(`JSON.stringify(${shown}) === ${JSON.stringify(JSON.stringify(facts))}`)
    await showsData('rooms0 of 10', `maps2 of 5dust${hostile}`)
    await fleet.allocate({ buildID, sessionID, counters: { rooms: { increment: 3 } }, labels: { region: 'eu' } })
    await showsData('rooms3 of 10', `maps2 of 5dust${hostile}`, 'regioneu')
    await fleet.servers.update({ name }, { annotations: { note: 'for the final' } })
    await showsData('rooms3 of 10', `maps2 of 5dust${hostile}`, 'regioneu', 'notefor the final')
    expect(await violations(page)).toEqual([])
    expect(await page.title()).not.toContain('owned')
    expect(complaints.filter((one) => !one.includes('/logs?'))).toEqual([])
  },
  limitMs,
)

testInBrowser(
  'the list of sessions ends one of them, and says first for whom',
  async () => {
    const { backend, fleet, url } = await memoryHost()
    await fleet.builds.create(build())
    await standingBy(fleet, 2)
    const other = '0b7f9a52-58f4-4c0e-9a2c-6d1f0e2b7c33'
    const { server } = await fleet.allocate({ buildID, sessionID, initialPlayers: ['amie'] }, { confirm: true })
    await fleet.allocate({ buildID, sessionID: other, initialPlayers: [] }, { confirm: true })
    backend.server(server).players(['amie', 'bob', 'chioma'])
    const { page } = await open(`${url}/#/sessions`)
    await shows(page, '2 sessions')
    await shows(page, '3: amie, bob, chioma')
    await press(page, `End the session ${sessionID} on ${server.name}`)
    await shows(page, 'Ends the match with 3 players')
    expect(await violations(page)).toEqual([])
    await page.locator('dialog button[type=submit]').click()
    await shows(page, '1 session')
    await page.waitForFunction(`!document.body.innerText.includes('${sessionID}')`)
    expect((await fleet.sessions.list()).filter(({ state }) => state === 'Active')).toMatchObject([
      { sessionID: other },
    ])
  },
  limitMs,
)

testInBrowser(
  'announced maintenance stands beside its server until it is withdrawn',
  async () => {
    const { fleet, url } = await memoryHost()
    await fleet.builds.create(build({ standingBy: 1 }))
    await standingBy(fleet, 1)
    const { page } = await open(`${url}/#/builds/default/arena`)
    await page.waitForSelector('.row.servers .state-StandingBy')
    const [server] = await fleet.servers.list()
    const name = server?.metadata.name ?? ''
    const at = new Date((Math.floor(Date.now() / 1_000) + 86_400) * 1_000)
    await fleet.servers.announceMaintenance({ name }, at)
    await page.waitForSelector(`.row.servers .warn.type time[datetime="${at.toISOString()}"]`)
    expect(await violations(page)).toEqual([])
    // A page that is opened later has it, too.
    await page.reload()
    await page.waitForSelector('.row.servers .warn.type time')
    await fleet.servers.withdrawMaintenance({ name })
    await page.waitForFunction(`document.querySelector('.row.servers .state-StandingBy') &&
      !document.querySelector('.row.servers .warn.type')`)
  },
  limitMs,
)

testInBrowser(
  'a buildID and the messages of a backend never become markup: in conditions, events and the life of a server',
  async () => {
    const create = () => Promise.reject(new FleetError('invalid', `no space for ${hostile}`))
    const { fleet, url } = await memoryHost({}, {}, { create })
    await fleet.builds.create(build({ buildID: hostile, standingBy: 1, buildMetadata: { region: hostile } }))
    const { page, complaints } = await open(`${url}/`)
    await shows(page, 'CreateBlocked')
    await shows(page, `no space for ${hostile}`)
    await page.locator('.build h2 a').click()
    await shows(page, 'build in default')
    await shows(page, `no space for ${hostile}`)
    await shows(page, 'onerror=\\"document.title')
    await page.locator('.row.servers a').click()
    await page.waitForSelector('.timeline li')
    await shows(page, `no space for ${hostile}`)
    await page.evaluate(`location.hash = '#/try'`)
    await page.waitForFunction(`document.querySelector('option').innerText === ${JSON.stringify(`arena (${hostile})`)}`)
    await page.keyboard.press('/')
    await page.keyboard.type('onerror')
    await shows(page, 'buildID of arena')
    await page.keyboard.press('Escape')
    await page.evaluate(`location.hash = '#/events'`)
    await page.waitForSelector('.row.events .type')
    await shows(page, `no space for ${hostile}`)
    expect(await page.title()).not.toContain('owned')
    expect(await page.$$('main img, main script')).toEqual([])
    // The memory backend has no logs.
    expect(complaints.filter((one) => !one.includes('/logs?'))).toEqual([])
  },
  limitMs,
)

testInBrowser(
  'a server shows what it uses, and its build the sessions and hours since the host leads',
  async () => {
    let cpuSeconds = 0
    const usage = async () => ({ memoryBytes: 136 * 1_048_576, cpuSeconds: (cpuSeconds += 0.25) })
    const { fleet, url } = await memoryHost({}, {}, { usage })
    await fleet.builds.create(build({ standingBy: 1 }))
    await standingBy(fleet, 1)
    await fleet.allocate({ buildID, sessionID })
    const { server } = await fleet.sessions.get(sessionID).then((session) => session as { server: { name: string } })
    const { page } = await open(`${url}/#/servers/default/${server.name}`)
    await page.waitForFunction(`/uses\\s+0\\.\\d\\d cores, 136 MiB/.test(document.body.innerText)`)
    await page.evaluate(`location.hash = '#/builds/default/arena'`)
    await page.waitForFunction(
      `/1 session and 0\\.\\d server-hours since \\d\\d:\\d\\d:\\d\\d/.test(document.body.innerText)`,
    )
    expect(await violations(page)).toEqual([])
  },
  limitMs,
)
