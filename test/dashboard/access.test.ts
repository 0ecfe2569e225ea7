/** Who may see and act: rights that depend on the build, tokens, and the host app's own sign-in. */
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { runInNewContext } from 'node:vm'
import express from 'express'
import { expect } from 'vitest'
import { dashboardRoutes } from '../../src/dashboard/index.js'
import { bearerTokens } from '../../src/http/index.js'
import { build, standingBy } from '../http/fleet.js'
import { testInBrowser } from './browser.js'
import { listening, memoryHost } from './memory-host.js'
import { browserOfFile, press, shows, violations } from './open-page.js'

const { open } = browserOfFile()
const limitMs = 300_000
const inNamespace = (namespace: string, buildID: string) => ({
  ...build({ buildID }),
  metadata: { name: 'arena', namespace },
})

testInBrowser(
  'a caller may act on the builds of a namespace, and only sees the others',
  async () => {
    const { fleet, url } = await memoryHost({
      authorize: (request, { role }) => role === 'read' || request.param('namespace') === 'team-a',
    })
    await fleet.builds.create(inNamespace('team-a', 'a'))
    await fleet.builds.create(inNamespace('team-b', 'b'))
    const { page } = await open(`${url}/#/builds/team-a/arena`)
    await shows(page, 'build in team-a')
    expect(await page.$$eval('.page-title button', (all) => all.map((one) => one.textContent))).toEqual([
      'Scale',
      'Drain',
      'Delete',
    ])
    await page.goto(`${url}/#/builds/team-b/arena`)
    await shows(page, 'read only')
    expect(await page.$$('.page-title button')).toEqual([])
    expect(await violations(page)).toEqual([])
    await page.goto(`${url}/#/builds/team-a/arena`)
    await page.waitForSelector('.page-title button')
    await press(page, 'Scale')
    await page.locator('dialog input').fill('1')
    await page.locator('dialog button[type=submit]').click()
    await shows(page, 'of 1')
  },
  limitMs,
)

testInBrowser(
  'a caller with a token signs out, and nothing of the fleet is left on the page: no name, no edit',
  async () => {
    const token = 'a-token-that-manages'
    const { fleet, url } = await memoryHost({ authorize: bearerTokens([{ token, roles: ['manage'] }]) })
    await fleet.builds.create(build())
    const { page } = await open(`${url}/#/builds/default/arena`)
    const signIn = async () => {
      await page.locator('input[type=password]').fill(token)
      await page.keyboard.press('Enter')
      await page.waitForSelector('pre.spec')
    }
    await signIn()
    await press(page, 'Edit')
    const { spec } = await fleet.builds.get('arena')
    await page.locator('textarea').fill(JSON.stringify({ ...spec, buildMetadata: { secret: 'not applied' } }))
    await shows(page, '+     "secret": "not applied"')
    expect(await page.evaluate('sessionStorage.length')).toBe(2)
    await press(page, 'Sign out')
    await shows(page, 'This host asks for a bearer token.')
    await page.waitForFunction('sessionStorage.length === 0')
    expect(await page.evaluate('document.body.innerText')).not.toContain('arena')
    await page.keyboard.press('/')
    await page.keyboard.type('arena')
    await shows(page, 'Nothing has this in its name.')
    await page.keyboard.press('Escape')
    await signIn()
    expect(await page.evaluate('document.body.innerText')).not.toContain('is not applied')
  },
  limitMs,
)

/** The lines of the guide, as they are. */
async function guideLines(): Promise<string> {
  const guide = await readFile(new URL('../../docs/guides/dashboard.md', import.meta.url), 'utf8')
  const blocks = [...guide.matchAll(/```ts\n([^`]*)```/g)].map(([, code = '']) => code)
  const block = blocks.find((code) => code.includes('/sign-in'))
  if (block === undefined) throw new Error('the guide shows no sign-in')
  return block.replaceAll(/^import .*$/gm, '')
}

testInBrowser(
  "in Express with a sign-in of the app's own, one signs in, acts, is told that the session has ended, and goes on",
  async () => {
    const { fleet } = await memoryHost()
    await fleet.builds.create(build())
    await standingBy(fleet, 2)
    const app = express()
    let session = 1
    let endsAtChange = false
    const isSignedIn = (request: { readonly method: string; readonly headers: { readonly cookie?: string } }) => {
      // What the page reads meanwhile would already show it the end.
      if (endsAtChange && request.method !== 'GET') {
        endsAtChange = false
        session++
      }
      return request.headers.cookie === `session=${session}`
    }
    app.get('/sign-in', (_, response) => {
      response.send('<title>Sign in</title><form method="post"><button>Enter</button></form>')
    })
    app.post('/sign-in', (_, response) => {
      response.cookie('session', String(session), { httpOnly: true, sameSite: 'lax' }).redirect('/fleet/')
    })
    runInNewContext(await guideLines(), { app, fleet, dashboardRoutes, isSignedIn })
    const url = await listening(app.listen(0, '127.0.0.1'))

    const { page } = await open(`${url}/fleet/`)
    const signIn = async () => {
      await page.waitForFunction(`document.title === 'Sign in'`)
      await page.locator('button').click()
    }
    await signIn()
    await shows(page, '2 standing by')
    await page.locator('.build h2 a').click()
    await press(page, 'Scale')
    await page.locator('dialog input').fill('1')
    await page.locator('dialog button[type=submit]').click()
    await shows(page, '1 of 1')
    await press(page, 'Edit')
    const { spec } = await fleet.builds.get('arena')
    await page.locator('textarea').fill(JSON.stringify({ ...spec, max: 4 }))
    await shows(page, '+   "max": 4,')
    endsAtChange = true
    await press(page, 'Apply')
    await shows(page, 'You are signed out')
    expect(await violations(page)).toEqual([])
    expect((await fleet.builds.get('arena')).spec.max).toBe(3)
    await press(page, 'Reload')
    await signIn()
    // The address of the view has survived the sign-in.
    await press(page, 'Continue editing')
    await press(page, 'Apply')
    await page.waitForSelector('pre.spec')
    expect((await fleet.builds.get('arena')).spec.max).toBe(4)

    // A page of another origin on the same site, to which the browser sends the cookie along.
    const forged = JSON.stringify(inNamespace('default', 'forged')).replace('"arena"', '"forged"')
    const attacker = await listening(
      createServer((_, response) => {
        response.setHeader('Content-Type', 'text/html')
        response.end(`<form method="post" enctype="text/plain" action="${url}/fleet/api/v1/gameserverbuilds">
          <input name='${forged.slice(0, -1)},"x":"' value='"}'></form>`)
      }).listen(0, '127.0.0.1'),
    )
    await page.goto(attacker)
    const answered = page.waitForResponse((response) => response.url().endsWith('/gameserverbuilds'))
    await page.evaluate(`document.querySelector('form').submit()`)
    const answer = await answered
    // Without the cookie, it would have been sent to the sign-in.
    expect(answer.status()).toBe(400)
    expect(await answer.text()).toContain("Content-Type must be application/json in a browser's request")
    expect((await fleet.builds.list()).map(({ metadata }) => metadata.name)).toEqual(['arena'])
    await page.goto(attacker)
    const others = await page.evaluate(`Promise.allSettled([
      fetch('${url}/fleet/api/v1/gameserverbuilds/default/arena', { method: 'DELETE', credentials: 'include' }),
      fetch('${url}/fleet/api/v1/gameserverbuilds/default/arena/drain', { method: 'POST', credentials: 'include', body: '{}' }),
    ]).then((all) => all.map(({ status }) => status))`)
    expect(others).toEqual(['rejected', 'rejected'])
    expect((await fleet.builds.get('arena')).status.conditions ?? []).toEqual([])
  },
  limitMs,
)
