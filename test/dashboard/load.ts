/**
 * `npm run bench:dashboard`: how the page does in Chromium with 10,000 servers. Prints when it has
 * painted first and when it shows the servers, for a new reader and for one whose browser has its files; then, with 500 changes a
 * second for 20 s, frame times, long tasks and the share of the main thread, how long a key takes in the box that finds, and last its
 * memory before and after an hour's worth of such changes, which are sent as fast as it reads them.
 */
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { loadavg } from 'node:os'
import { setInterval, setTimeout } from 'node:timers/promises'
import type { Page } from 'puppeteer-core'
import { openBrowser } from './browser.js'
import { largeFleet, type LargeFleet } from './large-fleet.js'

const serverRows = '.row.servers:nth-child(3)'
const openings = 15
const perSecond = 500
const seconds = 20
const stepMs = 100
const finds = 5
const keyMs = 120
const hourOfChanges = perSecond * 3_600

const browser = await openBrowser()
const fleet = largeFleet()
fleet.server.listen(0, '127.0.0.1')
await once(fleet.server, 'listening')
const { port } = fleet.server.address() as AddressInfo
try {
  const address = `http://127.0.0.1:${port}/#/builds/default/arena-3`
  await measurePaints(address)
  const page = await browser.newPage()
  await page.goto(address)
  await page.waitForSelector(serverRows)
  await measureChanges(page, fleet)
  await measureFind(page, fleet)
  await measureMemory(page, fleet)
  print('load of the machine', loadavg()[0] ?? 0, '')
} finally {
  await browser.close()
  fleet.server.closeAllConnections()
  fleet.server.close()
}

interface Paint {
  readonly first: number
  readonly fleet: number
}

async function measurePaints(address: string): Promise<void> {
  const cold: Paint[] = []
  const warm: Paint[] = []
  for (let n = 0; n < openings; n++) {
    const context = await browser.createBrowserContext()
    cold.push(await paintOf(await context.newPage(), address))
    warm.push(await paintOf(await context.newPage(), address))
    await context.close()
  }
  for (const [who, paints] of [['new reader', cold] as const, ['files in the browser', warm] as const]) {
    for (const [what, pick] of [['first paint', 'first'] as const, ['servers shown', 'fleet'] as const]) {
      const sorted = paints.map((paint) => paint[pick]).toSorted((a, b) => a - b)
      print(
        `${what}, ${who}`,
        sorted[Math.floor(sorted.length / 2)] ?? 0,
        `ms at the median, ${Math.round(sorted.at(-1) ?? 0)} ms at most`,
      )
    }
  }
}

async function paintOf(page: Page, address: string): Promise<Paint> {
  // Marked by the page itself: the debugger's answer takes longer than what is measured.
  await page.evaluateOnNewDocument(`new MutationObserver((_, observer) => {
    if (document.querySelector('${serverRows}') === null) return
    observer.disconnect()
    requestAnimationFrame(() => setTimeout(() => performance.mark('servers')))
  }).observe(document, { childList: true, subtree: true })`)
  await page.goto(address)
  await page.waitForFunction(`performance.getEntriesByName('servers').length > 0`)
  const startOf = async (name: string) =>
    Number(await page.evaluate(`performance.getEntriesByName('${name}')[0].startTime`))
  const paint = { first: await startOf('first-contentful-paint'), fleet: await startOf('servers') }
  await page.close()
  return paint
}

interface Seen {
  readonly frames: readonly number[]
  readonly tasks: readonly number[]
}

async function measureChanges(page: Page, { change }: LargeFleet): Promise<void> {
  await page.evaluate(`
    window.seen = { frames: [], tasks: [] }
    new PerformanceObserver((list) => seen.tasks.push(...list.getEntries().map(({ duration }) => duration))).observe({ type: 'longtask' })
    let last = performance.now()
    const list = document.querySelector('.virtual')
    requestAnimationFrame(function frame(now) {
      seen.frames.push(now - last)
      last = now
      list.scrollTop = (list.scrollTop + 20) % (list.scrollHeight - list.clientHeight)
      requestAnimationFrame(frame)
    })`)
  const { TaskDuration: before = 0 } = await page.metrics()
  const startedAt = performance.now()
  let sent = 0
  for await (const _ of setInterval(stepMs)) {
    const due = Math.min(seconds * 1_000, performance.now() - startedAt)
    await change(Math.floor((due * perSecond) / 1_000) - sent)
    sent = Math.floor((due * perSecond) / 1_000)
    if (due === seconds * 1_000) break
  }
  const { TaskDuration: after = 0 } = await page.metrics()
  const { frames, tasks } = (await page.evaluate('window.seen')) as Seen
  const sorted = frames.toSorted((a, b) => a - b)
  const at = (share: number) => sorted[Math.floor((sorted.length - 1) * share)] ?? 0
  print('frame, median', at(0.5), 'ms')
  print('frame, 99th percentile', at(0.99), 'ms')
  print('frame, longest', at(1), 'ms')
  print('tasks over 50 ms', tasks.length, `in ${seconds} s`)
  print('longest task', Math.max(0, ...tasks), 'ms')
  print('main thread busy', ((after - before) * 100_000) / (performance.now() - startedAt), '%')
}

/** From the key to the frame that shows what was found, while the fleet changes as fast as before. */
async function measureFind(page: Page, { change }: LargeFleet): Promise<void> {
  await page.evaluate(`
    window.keys = []
    document.addEventListener('input', ({ timeStamp }) => {
      requestAnimationFrame(() => setTimeout(() => keys.push(performance.now() - timeStamp)))
    }, true)`)
  await page.keyboard.press('/')
  for (let n = 0; n < finds; n++) {
    for (const key of 'arena-7-99') {
      await change((perSecond * keyMs) / 1_000)
      await page.keyboard.type(key)
      await setTimeout(keyMs)
    }
    await page.evaluate(`document.activeElement.select()`)
  }
  await page.keyboard.press('Escape')
  const keys = ((await page.evaluate('window.keys')) as readonly number[]).toSorted((a, b) => a - b)
  print(
    'find, a key',
    keys[Math.floor(keys.length / 2)] ?? 0,
    `ms at the median, ${Math.round(keys.at(-1) ?? 0)} ms at most`,
  )
}

async function measureMemory(page: Page, { change }: LargeFleet): Promise<void> {
  print('heap before', await heapOf(page), 'MiB')
  for (let sent = 0; sent < hourOfChanges; sent += perSecond * 10) {
    await change(perSecond * 10)
    if (sent === hourOfChanges / 2) print('heap after half an hour of changes', await heapOf(page), 'MiB')
  }
  print('heap after an hour of changes', await heapOf(page), 'MiB')
}

async function heapOf(page: Page): Promise<number> {
  const session = await page.createCDPSession()
  await session.send('HeapProfiler.collectGarbage')
  await session.detach()
  const { JSHeapUsedSize: bytes = 0 } = await page.metrics()
  return bytes / 2 ** 20
}

function print(name: string, value: number, unit: string): void {
  console.log(`${name.padEnd(36)}${value.toFixed(1).padStart(9)} ${unit}`)
}
