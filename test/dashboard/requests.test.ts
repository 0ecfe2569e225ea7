/** What the page asks of its host: one snapshot, and then only the event stream and small summaries. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { atMostEvery } from '../../src/dashboard/page/data/at-most-every.js'
import { build, buildID, sessionID, standingBy } from '../http/fleet.js'
import { testInBrowser } from './browser.js'
import { memoryHost } from './memory-host.js'
import { browserOfFile, shows } from './open-page.js'

const { open } = browserOfFile()
const limitMs = 300_000

describe('a limited call', () => {
  beforeEach(() => void vi.useFakeTimers())
  afterEach(() => void vi.useRealTimers())

  it('runs at once, then no sooner than its interval, however often it is requested', () => {
    let runs = 0
    const request = atMostEvery(1_000, () => runs++)
    for (let n = 0; n < 5; n++) request()
    vi.advanceTimersByTime(0)
    expect(runs).toBe(1)
    for (let n = 0; n < 5; n++) request()
    vi.advanceTimersByTime(999)
    expect(runs).toBe(1)
    vi.advanceTimersByTime(1)
    expect(runs).toBe(2)
    vi.advanceTimersByTime(60_000)
    expect(runs).toBe(2)
    request()
    vi.advanceTimersByTime(0)
    expect(runs).toBe(3)
  })
})

testInBrowser(
  'players who come and go are shown without reading a list again',
  async () => {
    const { backend, fleet, url } = await memoryHost()
    await fleet.builds.create(build())
    await standingBy(fleet, 2)
    const { server } = await fleet.allocate({ buildID, sessionID, initialPlayers: ['eve'] }, { confirm: true })

    const { page } = await open('about:blank')
    const lists: string[] = []
    page.on('request', (request) => {
      const { pathname } = new URL(request.url())
      if (/\/(sessions|gameservers|gameserverbuilds)$/.test(pathname)) lists.push(pathname)
    })
    await page.goto(`${url}/#/sessions`)
    await shows(page, '1: eve')
    const before = [...lists]
    expect(before.toSorted()).toEqual([
      '/api/v1/gameserverbuilds',
      '/api/v1/gameserverbuilds/default/arena/gameservers',
      '/api/v1/sessions',
    ])
    backend.server(server).players(['amie', 'bob'])
    await shows(page, '2: amie, bob')
    backend.server(server).players([])
    await shows(page, 'none')
    // The summary has been read again since.
    await page.waitForResponse((response) => response.url().endsWith('/api/v1/stats'))
    expect(lists).toEqual(before)
  },
  limitMs,
)
