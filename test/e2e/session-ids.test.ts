/** Session ids of any visible characters: the game, the HTTP APIs and the client all have them as the caller gave them. */
import { expect, it } from 'vitest'
import type { Allocation } from 'gamekeeper'
import { fleetClient } from 'gamekeeper/client'
import { allocate, buildOf, createBuild, portOf, say } from './client.js'
import { startHost } from './host.js'
import { portRangeText } from './port-ranges.js'
import { until } from './until.js'
import { workplace } from './workplace.js'

const ids = [
  'ranked/eu 7 "試合" 🎮 \'a\' 100% %2F ?x=1&y#z;\\n $(id) `id` {}<>|',
  '../../etc//passwd/',
  '🎮'.repeat(64),
  // Not the same as the next two: neither normalization nor case is ignored.
  'Caf\u00E9',
  'Cafe\u0301',
  'caf\u00E9',
]

it('a session id of any visible characters is the same everywhere', { timeout: 300_000 }, async () => {
  const { dataDir } = await workplace()
  const env = { DATA_DIR: dataDir, PORT_RANGE: portRangeText('session-ids'), SAMPLE: 'off', SESSION_IDS: 'any' }
  const host = await startHost(env)
  await createBuild(host, buildOf({ name: 'odd', buildID: 'odd-1', standingBy: ids.length, max: ids.length }))
  const client = fleetClient({ managementUrl: host.management, allocationUrl: host.allocation })

  const allocations: Allocation[] = []
  for (const sessionID of ids) {
    const { status, body } = await allocate(host, { buildID: 'odd-1', sessionID }, 60)
    expect({ sessionID, status, given: body.SessionID }).toEqual({ sessionID, status: 200, given: sessionID })
    allocations.push(body)
  }
  expect(new Set(allocations.map(({ Ports }) => Ports)).size).toBe(ids.length)

  for (const [index, sessionID] of ids.entries()) {
    const told = `session ${sessionID} cookie`
    await until('the game has its session', async () =>
      (await say(portOf(allocations[index]?.Ports ?? ''), 'hello amie')).startsWith(told),
    )
    expect(await client.allocate({ buildID: 'odd-1', sessionID })).toMatchObject({ Ports: allocations[index]?.Ports })
    const found = await client.sessions.get(sessionID)
    expect(found).toMatchObject({ sessionID, buildID: 'odd-1', state: 'Active' })
    const answer = await fetch(`${host.management}/api/v1/sessions/${encodeURIComponent(sessionID)}`)
    expect(await answer.json()).toMatchObject({ sessionID, server: found.server })
  }
  expect((await client.sessions.list()).map(({ sessionID }) => sessionID).toSorted()).toEqual(ids.toSorted())

  for (const [index, sessionID] of ids.entries()) {
    await client.sessions.end(sessionID)
    await until('the session is gone', async () =>
      (await client.sessions.list()).every((session) => session.sessionID !== sessionID),
    )
    expect(await client.sessions.get(sessionID)).toMatchObject({ sessionID, state: 'Ended' })
    const left = (await client.sessions.list()).filter(({ state }) => state === 'Active')
    expect(left.map((session) => session.sessionID).toSorted()).toEqual(ids.slice(index + 1).toSorted())
  }
  // Each line of the log is one JSON object, and no id has broken one.
  for (const line of host.stdout().trimEnd().split('\n')) expect(JSON.parse(line)).toHaveProperty('level')
})
