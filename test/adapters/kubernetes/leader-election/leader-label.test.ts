/**
 * The leader label that Services select: it is restored when removed by hand, and a leader removes it only from hosts of its
 * own fleet.
 */
import { text } from 'node:stream/consumers'
import { expect, it, onTestFinished } from 'vitest'
import { withLeaderLabel } from '../../../../adapters/kubernetes/leader-election/elector.js'
import { systemClock } from '../../../../src/contracts/clock.js'
import type { ElectionListener } from '../../../../src/contracts/elector.js'
import { silentLogger } from '../../../../src/contracts/logger.js'
import { until } from '../../../e2e/until.js'
import { apiOf, configFor, fakeApiServer, respond } from '../support/fake-api-server.js'

const label = 'mps.gamekeeper.com/leader'

type Written = Partial<Record<'labels' | 'annotations', Record<string, string | null>>>

const isMarked = (written: Written | undefined) => written?.labels?.[label] === 'true'

/** A host in a pod. The test decides whether it leads, and ends its long waits. */
async function scene(others: Readonly<Record<string, Written>> = {}) {
  const pods = new Map<string, Written>([['me', {}], ...Object.entries(others)])
  const server = await fakeApiServer((request, response, { pathname }) => {
    void text(request).then((body) => {
      if (request.method === 'GET') {
        const items = [...pods].flatMap(([name, written]) =>
          isMarked(written) ? { metadata: { name, ...written } } : [],
        )
        return respond(response, 200, { metadata: {}, items })
      }
      const name = pathname.split('/').at(-1) ?? ''
      const { labels, annotations } = (JSON.parse(body) as { metadata: Written }).metadata
      const before = pods.get(name)
      pods.set(name, {
        labels: { ...before?.labels, ...labels },
        annotations: { ...before?.annotations, ...annotations },
      })
      respond(response, 200, { metadata: { name } })
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
  /** The current long waits. */
  const pass = () => {
    for (const fn of [...waits]) {
      waits.delete(fn)
      fn()
    }
  }
  let electionListener: ElectionListener | undefined
  const elector = {
    lease: 'games/a',
    follow: () => () => {},
    run(listener: ElectionListener) {
      electionListener = listener
      return () => Promise.resolve()
    },
  }
  const api = apiOf(configFor(server.url))
  const pod = { namespace: 'games', name: 'me' }
  const resign = withLeaderLabel(elector, { api, clock, logger: silentLogger, label, pod }).run({
    elected() {},
    lost() {},
  })
  onTestFinished(resign)
  const isPut = () => isMarked(pods.get('me'))
  return {
    pods,
    waits,
    pass,
    server,
    isPut,
    resign,
    elected: () => electionListener?.elected(),
    lost: () => electionListener?.lost('other'),
  }
}

it('the leader label is rewritten regularly while the host leads', async () => {
  const { pods, waits, pass, server, isPut, elected } = await scene()
  elected()
  await until('the label is there', isPut)
  for (let times = 0; times < 3; times++) {
    await until('it waits', () => waits.size === 1)
    pods.delete('me')
    pass()
    await until('the label is there again', isPut)
  }
  // Other pods with the label are listed once.
  expect(server.requests.filter((call) => call.startsWith('GET'))).toHaveLength(1)
})

it('the leader label is not rewritten by a host that no longer leads', async () => {
  const { waits, isPut, elected, lost } = await scene()
  elected()
  await until('it waits', () => isPut() && waits.size === 1)
  lost()
  expect(waits.size).toBe(0)
  await until('the label is gone', () => !isPut())
  expect(waits.size).toBe(0)
})

it('the leader label is not rewritten by a host that has resigned', async () => {
  const { waits, isPut, elected, resign } = await scene()
  elected()
  await until('it waits', () => isPut() && waits.size === 1)
  await resign()
  expect(waits.size).toBe(0)
  expect(isPut()).toBe(false)
})

it('the leader label is removed from hosts of the same fleet, but not from hosts of other fleets', async () => {
  const labels = { [label]: 'true' }
  const lease = 'mps.gamekeeper.com/leader-lease'
  const { pods, waits, elected } = await scene({
    same: { labels, annotations: { [lease]: 'games/a' } },
    other: { labels, annotations: { [lease]: 'games/b' } },
  })
  elected()
  await until('it waits', () => waits.size === 1)
  expect([...pods].flatMap(([name, written]) => (isMarked(written) ? name : []))).toEqual(['me', 'other'])
  expect(pods.get('me')?.annotations).toEqual({ [lease]: 'games/a' })
  expect(pods.get('same')?.annotations).toEqual({ [lease]: null })
})
