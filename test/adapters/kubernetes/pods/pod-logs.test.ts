/** The log of a pod over connections that break: each line once, also where several were written in one moment. */
import { expect, it } from 'vitest'
import { type LogSource, podLogs } from '../../../../adapters/kubernetes/pods/pod-logs.js'
import { apiOf, configFor, fakeApiServer } from '../support/fake-api-server.js'
import { linesOf } from '../support/support.js'

const at = (nanoseconds: number) => `2026-01-01T00:00:00.00000000${nanoseconds}Z`

/** What each connection shows, one after the other; the game has ended by the last. */
async function shown(connections: readonly string[], follow: boolean) {
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

it('shows all lines of one moment', async () => {
  const text = `${at(1)} Error: boom\n${at(1)}     at play (game.js:1)\n${at(1)}     at main (game.js:9)\n`
  expect(await shown([text], false)).toEqual(['Error: boom', '    at play (game.js:1)', '    at main (game.js:9)'])
})

it('shows none again after a connection that broke, and all that are new', async () => {
  const first = `${at(1)} a\n${at(2)} b\n${at(2)} c\n`
  const second = `${first}${at(2)} d\n${at(3)} e\n`
  const third = `${at(3)} e\n${at(3)} f\n`
  expect(await shown([first, second, third], true)).toEqual(['a', 'b', 'c', 'd', 'e', 'f'])
})
