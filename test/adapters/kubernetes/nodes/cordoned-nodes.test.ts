/** What is reported about cordoned nodes, without a cluster. */
import { virtualClock } from 'gamekeeper/testing'
import { expect, it } from 'vitest'
import { CordonedNodes } from '../../../../adapters/kubernetes/nodes/node-cache.js'

const noticeMs = 60_000
const cordoned = { spec: { unschedulable: true } }

function scene() {
  const clock = virtualClock()
  const reports: Readonly<Record<string, number>>[] = []
  const start = clock.now()
  const nodes = new CordonedNodes({
    ...{ clock, noticeMs },
    report: (found) => reports.push(Object.fromEntries([...found].map(([name, at]) => [name, at - start]))),
  })
  return { clock, nodes, reports }
}

it('nothing is reported before all nodes are listed, and then every cordoned node at once', () => {
  const { nodes, reports } = scene()
  nodes.nodeChanged('a', cordoned)
  nodes.nodeChanged('b', { spec: {} })
  nodes.nodeChanged('c', cordoned)
  expect([reports, nodes.current]).toEqual([[], undefined])
  nodes.listed()
  expect(reports).toEqual([{ a: noticeMs, c: noticeMs }])
  expect([...(nodes.current?.keys() ?? [])]).toEqual(['a', 'c'])
})

it('a fleet without cordoned nodes gets an empty report, which withdraws what an earlier host announced', () => {
  const { nodes, reports } = scene()
  nodes.listed()
  expect(reports).toEqual([{}])
})

it('a node is reported with the time of its own cordon until it is uncordoned or deleted, and not for other changes', async () => {
  const { clock, nodes, reports } = scene()
  nodes.listed()
  nodes.nodeChanged('a', cordoned)
  await clock.advance(10_000)
  nodes.nodeChanged('b', cordoned)
  nodes.nodeChanged('a', { ...cordoned, status: {} })
  nodes.nodeChanged('c', { spec: {} })
  expect(reports.slice(1)).toEqual([{ a: noticeMs }, { a: noticeMs, b: noticeMs + 10_000 }])
  nodes.nodeChanged('a', { spec: { unschedulable: false } })
  nodes.nodeChanged('b', undefined)
  nodes.nodeChanged('d', undefined)
  expect(reports.slice(3)).toEqual([{ b: noticeMs + 10_000 }, {}])
  nodes.nodeChanged('a', cordoned)
  expect(reports.at(-1)).toEqual({ a: noticeMs + 10_000 })
})
