/** Pod logs across broken connections: each line exactly once, also when several share a timestamp. */
import { expect, it } from 'vitest'
import { type LogSource, podLogs } from '../../../../adapters/kubernetes/pods/container-streams.js'
import { maxLineBytes } from '../../../../adapters/shared/line-splitter.js'
import { apiOf, configFor, fakeApiServer } from '../support/fake-api-server.js'
import { linesOf } from '../support/support.js'

const at = (nanoseconds: number) => `2026-01-01T00:00:00.00000000${nanoseconds}Z`

/** The text of each successive connection; the game has ended by the last one. */
async function linesFrom(connections: readonly string[], follow: boolean) {
  const left = [...connections]
  const server = await fakeApiServer((_, response) => void response.writeHead(200).end(left.shift()))
  const game = { ref: { namespace: 'games', name: 'arena-a1b2c' }, uid: 'u', ports: [] }
  const source: LogSource = {
    api: apiOf(configFor(server.url)),
    snapshot: {
      identity: { ...game, container: 'game' },
      instance: { ...game, phase: 'running' },
      ...{ pod: {}, podUid: 'p', revision: 1 },
    },
    isRunning: () => left.length > 0,
  }
  return linesOf(podLogs(source, { follow }))
}

it('a pod log yields all lines that share a timestamp', async () => {
  const text = `${at(1)} Error: boom\n${at(1)}     at play (game.js:1)\n${at(1)}     at main (game.js:9)\n`
  expect(await linesFrom([text], false)).toEqual(['Error: boom', '    at play (game.js:1)', '    at main (game.js:9)'])
})

it('a pod log yields only new lines after a broken connection', async () => {
  const first = `${at(1)} a\n${at(2)} b\n${at(2)} c\n`
  const second = `${first}${at(2)} d\n${at(3)} e\n`
  const third = `${at(3)} e\n${at(3)} f\n`
  expect(await linesFrom([first, second, third], true)).toEqual(['a', 'b', 'c', 'd', 'e', 'f'])
})

it('a pod log that is one very long line is yielded in pieces of a bounded length, also after a broken connection', async () => {
  const long = 'x'.repeat(5 * maxLineBytes)
  const first = `${at(1)} a\n${at(2)} ${long}\n`
  const lines = await linesFrom([first, `${at(2)} ${long}\n${at(3)} b\n`], true)
  expect([lines[0], lines.at(-1)]).toEqual(['a', 'b'])
  expect(lines.slice(1, -1).join('')).toBe(long)
  expect(Math.max(...lines.map(({ length }) => length))).toBeLessThanOrEqual(maxLineBytes)
})

it('a pod log says what the kubelet says of it, which is no line of the game', async () => {
  const removed = 'rpc error: code = Unknown desc = Error: No such container: 3f6b37f30999'
  const message = `the node cannot read the log: ${removed}`
  await expect(linesFrom([removed], false)).rejects.toMatchObject({ code: 'unavailable', message })
  await expect(linesFrom([`${at(1)} a\n${removed}\n`], false)).rejects.toMatchObject({ code: 'unavailable', message })
  await expect(linesFrom([removed], true)).rejects.toMatchObject({ code: 'unavailable', message })
  expect(await linesFrom([`${at(1)} a\n${removed}`, `${at(1)} a\n${at(2)} b\n2026-`, `${at(3)} c`], true)).toEqual([
    'a',
    'b',
    'c',
  ])
})
