/** Somebody may take the label of the leader off its pod by hand: the Services that select it would find nobody. */
import { expect, it, onTestFinished } from 'vitest'
import { labelling } from '../../../adapters/kubernetes/leader-label.js'
import { systemClock } from '../../../src/clock.js'
import type { ElectionListener } from '../../../src/elector.js'
import { silentLogger } from '../../../src/logger.js'
import { until } from '../../e2e/until.js'
import { apiOf, configFor, fakeApiServer, say } from './fake-api-server.js'

const label = 'mps.gamekeeper.com/leader'

/** A host in a pod, told by the test whether it leads; long waits are over when the test says so. */
async function scene() {
  const labels = new Map<string, string>()
  const server = await fakeApiServer((request, response) => {
    let text = ''
    request.on('data', (chunk: Buffer) => (text += chunk.toString()))
    request.on('end', () => {
      if (request.method === 'GET') return say(response, 200, { metadata: {}, items: [] })
      const { metadata } = JSON.parse(text) as { metadata: { labels: Record<string, string | null> } }
      const value = metadata.labels[label]
      if (typeof value === 'string') labels.set(label, value)
      else labels.delete(label)
      say(response, 200, { metadata: { name: 'me' } })
    })
  })
  const waits = new Set<() => void>()
  const clock = {
    ...systemClock,
    after(ms: number, fn: () => void) {
      if (ms !== 30_000) return systemClock.after(ms, fn)
      waits.add(fn)
      return () => void waits.delete(fn)
    },
  }
  /** All that are waited for now. */
  const pass = () => {
    for (const fn of [...waits]) {
      waits.delete(fn)
      fn()
    }
  }
  let told: ElectionListener | undefined
  const elector = {
    run(listener: ElectionListener) {
      told = listener
      return () => Promise.resolve()
    },
  }
  const api = apiOf(configFor(server.url))
  const pod = { namespace: 'games', name: 'me' }
  const resign = labelling(elector, { api, clock, logger: silentLogger, label, pod }).run({ elected() {}, lost() {} })
  onTestFinished(resign)
  const isPut = () => labels.get(label) === 'true'
  return { labels, waits, pass, server, isPut, resign, elected: () => told?.elected(), lost: () => told?.lost('other') }
}

it('is written again while the host leads', async () => {
  const { labels, waits, pass, server, isPut, elected } = await scene()
  elected()
  await until('the label is there', isPut)
  for (let times = 0; times < 3; times++) {
    await until('it waits', () => waits.size === 1)
    labels.clear()
    pass()
    await until('the label is there again', isPut)
  }
  // The pods of others are looked for once.
  expect(server.asked.filter((call) => call.startsWith('GET'))).toHaveLength(1)
})

it('is not written again by a host that leads no more', async () => {
  const { waits, isPut, elected, lost } = await scene()
  elected()
  await until('it waits', () => isPut() && waits.size === 1)
  lost()
  expect(waits.size).toBe(0)
  await until('the label is gone', () => !isPut())
  expect(waits.size).toBe(0)
})

it('is not written again by a host that has left', async () => {
  const { waits, isPut, elected, resign } = await scene()
  elected()
  await until('it waits', () => isPut() && waits.size === 1)
  await resign()
  expect(waits.size).toBe(0)
  expect(isPut()).toBe(false)
})
