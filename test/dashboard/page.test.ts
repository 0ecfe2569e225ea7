/** The dashboard in a real browser, against the bundled server on processes. */
import { expect } from 'vitest'
import { type Host, startHost } from '../e2e/host.js'
import { workplace } from '../e2e/workplace.js'
import { testInBrowser } from './browser.js'
import { browserOfFile, press as pressOn, shows, violations } from './open-page.js'

const buildID = '85ffe8da-c82f-4035-86c5-9d2b5f42d6f5'
const limitMs = 300_000
const { open } = browserOfFile()

async function allocate({ allocation }: Host, sessionID: string, initialPlayers: readonly string[]): Promise<void> {
  const response = await fetch(`${allocation}/api/v1/allocate?wait=60&confirm=true`, {
    method: 'POST',
    body: JSON.stringify({ buildID, sessionID, initialPlayers }),
  })
  expect(response.status).toBe(200)
}

const hostile = '<img src=x onerror="document.title=`owned`"><script>document.title=`owned`</script>'

/** A build whose games end at once. */
async function createBroken({ management }: Host): Promise<void> {
  const command = ['node', '-e', `console.log(${JSON.stringify(`no map: ${hostile}`)}); process.exit(3)`]
  const spec = { buildID: 'e2a7d9c1-0b5f-4c39-9d51-1f0c6f1f7b11', standingBy: 1, max: 1, run: { command } }
  const response = await fetch(`${management}/api/v1/gameserverbuilds`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ metadata: { name: 'broken' }, spec }),
  })
  expect(response.status).toBe(200)
}

testInBrowser(
  'follows the fleet without a reload: builds, servers, logs, sessions and events',
  async () => {
    const { dataDir } = await workplace()
    const env = { DATA_DIR: dataDir, PORT_RANGE: '30700-30719', SESSION_IDS: 'any', GAME: hostile }
    const host = await startHost(env)
    const { page, complaints } = await open(`${host.management}/`)
    await shows(page, '2 standing by')
    expect(await violations(page)).toEqual([])

    await allocate(host, 'match-1<img/src=x>', [hostile, 'amie'])
    await shows(page, '1 active')
    await shows(page, 'Store works')
    // The last hour comes from the host, so a page that has just been opened has it, too.
    await page.reload()
    await page.waitForSelector('[role=img][aria-label="Allocations a minute in the last hour: 1 allocation"] canvas')
    await shows(page, '1 active')
    await page.locator('.build h2 a').click()
    await page.waitForSelector('.row.servers .state-Active')
    await shows(page, 'match-1')
    expect(await violations(page)).toEqual([])

    // Keyboard: find the player, and go to the server.
    await page.keyboard.press('/')
    await page.keyboard.type('amie')
    await page.waitForSelector('[role=option][aria-selected=true]')
    await page.keyboard.press('Enter')
    await shows(page, 'was allocated to session match-1')
    await shows(page, 'begins, expecting <img src=x onerror=')
    await shows(page, hostile)
    expect(await violations(page)).toEqual([])

    await createBroken(host)
    await page.goto(`${host.management}/#/builds/default/broken`)
    await shows(page, 'the process exited with code 3')
    await shows(page, `no map: ${hostile}`)
    await page.waitForSelector('[role=img][aria-label^="Servers by state in the last hour"] canvas')
    expect(await violations(page)).toEqual([])

    await page.goto(`${host.management}/#/sessions?text=amie`)
    await shows(page, '1 session')
    await shows(page, hostile)
    expect(await violations(page)).toEqual([])
    await page.goto(`${host.management}/#/players?text=ami`)
    await shows(page, '0 players connected, 1 expected')
    await shows(page, 'match-1')
    expect(await violations(page)).toEqual([])
    await page.goto(`${host.management}/#/events?type=Allocated`)
    await page.waitForSelector('.row.events .type')
    expect(await violations(page)).toEqual([])
    // Only the names are links, and on a phone the whole sentence is there.
    expect(await page.$$eval('.row.events .message a', (links) => links.map((link) => link.textContent))).toEqual([
      expect.stringMatching(/^arena-\w+$/),
    ])
    await page.setViewport({ width: 380, height: 800 })
    await page.waitForFunction(`document.querySelector('.row.events .message').scrollWidth <= 380`)
    expect(await page.$eval('.row.events:not(.head) .message', (cell) => cell.scrollHeight <= cell.clientHeight)).toBe(
      true,
    )
    expect(await violations(page)).toEqual([])
    await page.setViewport({ width: 1280, height: 800 })
    await page.goBack()
    await shows(page, '0 players connected, 1 expected')
    await page.keyboard.press('?')
    await page.waitForSelector('dialog[open]')

    expect(await page.title()).not.toContain('owned')
    expect(await page.$$('main img, main script')).toEqual([])
    expect(complaints).toEqual([])
  },
  limitMs,
)

testInBrowser(
  'says that it is stale while the server is away, and goes on when it is back',
  async () => {
    const { dataDir } = await workplace()
    const env = { DATA_DIR: dataDir, PORT_RANGE: '30720-30739', SESSION_IDS: 'any' }
    const host = await startHost(env)
    const { page } = await open(`${host.management}/`)
    await shows(page, '2 standing by')
    await host.exit('SIGTERM')
    await shows(page, 'Stale for')
    await shows(page, '2 standing by')
    const next = await startHost({ ...env, MANAGEMENT_PORT: new URL(host.management).port })
    await page.waitForSelector('.connection.good')
    await allocate(next, 'match-2', ['bob'])
    await shows(page, '1 active')
  },
  limitMs,
)

testInBrowser(
  'goes on with the history and the log of a server after a restart of the host',
  async () => {
    const { dataDir } = await workplace()
    const env = { DATA_DIR: dataDir, PORT_RANGE: '30780-30799', SESSION_IDS: 'any' }
    const host = await startHost(env)
    await allocate(host, 'match-3', ['bob'])
    const { page } = await open(`${host.management}/#/sessions`)
    await page.locator('.row.sessions a').click()
    await shows(page, 'session match-3 begins')
    await shows(page, 'was allocated to session')
    await host.exit('SIGTERM')
    await shows(page, 'Stale for')
    const agent = new URL(host.agent).port
    const next = await startHost({ ...env, MANAGEMENT_PORT: new URL(host.management).port, AGENT_PORT: agent })
    await page.waitForSelector('.connection.good')
    // What the host before it has told is not in the new host's log.
    await page.waitForFunction(`!document.body.innerText.includes('was allocated to session')`)
    await shows(page, 'session match-3 begins')
    const server = decodeURIComponent(new URL(page.url()).hash.split('/').at(-1) ?? '')
    const announced = await fetch(`${next.management}/api/v1/gameservers/default/${server}/maintenance`, {
      method: 'POST',
      body: JSON.stringify({ at: new Date(Date.now() + 3_600_000).toISOString() }),
    })
    expect(announced.status).toBe(200)
    await shows(page, `maintenance of ${server} begins at`)
    await page.waitForSelector('.facts-list time')
  },
  limitMs,
)

testInBrowser(
  'asks for a token, keeps it for the tab, and tells a caller without the role',
  async () => {
    const { dataDir } = await workplace()
    const tokens = { READ_TOKENS: 'a-token-that-reads-only', ALLOCATE_TOKENS: 'a-token-that-allocates' }
    const host = await startHost({ DATA_DIR: dataDir, PORT_RANGE: '30740-30759', ...tokens })
    const { page } = await open(`${host.management}/`)
    await shows(page, 'Sign in')
    expect(await violations(page)).toEqual([])
    const signIn = async (token: string) => {
      await page.type('input[type=password]', token)
      await page.keyboard.press('Enter')
    }
    await signIn('a-token-that-nobody-has')
    await shows(page, 'The host does not know this token.')
    await page.reload()
    await shows(page, 'Sign in')
    await signIn('a-token-that-allocates')
    await shows(page, 'You may not read this fleet')
    await page.locator('.notice button').click()
    await shows(page, 'Sign in')
    await signIn('a-token-that-reads-only')
    await shows(page, '2 standing by')
    await page.reload()
    await shows(page, '2 standing by')
    expect(page.url()).not.toContain('token')
    await page.locator('.build h2 a').click()
    await shows(page, 'read only')
    expect(await page.$$('.page-title button')).toEqual([])
    await page.goto(`${host.management}/#/try`)
    await shows(page, 'You may not allocate servers')
  },
  limitMs,
)

testInBrowser(
  'allocates, ends a session, scales, drains, resumes and deletes, each time saying first what it will do',
  async () => {
    const { dataDir } = await workplace()
    const host = await startHost({ DATA_DIR: dataDir, PORT_RANGE: '30760-30779' })
    const { page, complaints } = await open(`${host.management}/#/try`)
    const press = (name: string) => pressOn(page, name)
    await shows(page, 'curl -X POST')
    expect(await violations(page)).toEqual([])
    await press('Allocate')
    await shows(page, 'Players connect to:')
    await page.locator('.answer a').click()
    await shows(page, 'was allocated to session')
    await press('End session')
    await shows(page, 'Ends the match with 2 expected players')
    expect(await violations(page)).toEqual([])
    await page.locator('dialog button[type=submit]').click()
    await shows(page, 'ending')

    await page.goto(`${host.management}/#/builds/default/arena`)
    await press('Scale standing by up to 3')
    await shows(page, 'Matches go on in any case.')
    await page.locator('dialog input').fill('11')
    await shows(page, 'Standing by must be at most max.')
    await page.locator('dialog input').fill('4')
    await page.locator('dialog button[type=submit]').click()
    await shows(page, '4 of 4')

    await press('Drain')
    await shows(page, 'Ends 4 idle servers.')
    await page.locator('dialog button[type=submit]').click()
    await shows(page, 'drained by an operator')
    await shows(page, '0 standing by')
    await press('Resume')
    await shows(page, 'Starts 4 servers.')
    await page.locator('dialog button[type=submit]').click()
    await shows(page, '4 of 4')

    await press('Edit')
    await shows(page, 'Nothing has changed yet.')
    await page.locator('textarea').fill('{"buildID":')
    await shows(page, 'This is not JSON')
    const { spec }: { readonly spec: object } = JSON.parse(
      await (await fetch(`${host.management}/api/v1/gameserverbuilds/default/arena`)).text(),
    )
    await page.locator('textarea').fill(JSON.stringify({ ...spec, standingBy: 'many' }))
    await shows(page, 'spec.standingBy must be')
    await page.locator('textarea').fill(JSON.stringify({ ...spec, standingBy: 3, buildMetadata: { region: hostile } }))
    await shows(page, '−   "standingBy": 4,')
    await shows(page, '+   "standingBy": 3,')
    expect(await violations(page)).toEqual([])
    await press('Apply')
    await page.waitForSelector('pre.spec')
    await shows(page, '"region":')
    await shows(page, '3 of 3')

    await press('Delete')
    await shows(page, 'Ends 3 servers and removes the build. No match is running.')
    await shows(page, 'Type arena to confirm.')
    await page.locator('dialog input').fill('arena')
    await page.locator('dialog button[type=submit]').click()
    await shows(page, 'No builds yet')
    expect(complaints).toEqual([])
  },
  limitMs,
)
