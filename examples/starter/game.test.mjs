// @ts-check
/** `npm test`: the real fleet with simulated game servers, on a virtual clock. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { createFleet } from 'gamekeeper'
import { memoryBackend } from 'gamekeeper/memory'
import { virtualClock } from 'gamekeeper/testing'
import { build, startMatch } from './fleet.mjs'

void test('every match gets a server of its own, and a repeated call the same one', async () => {
  const clock = virtualClock()
  const fleet = await createFleet({ backend: memoryBackend({ clock, readyAfterMs: 3_000 }), clock })
  await fleet.builds.create(build)
  await clock.advance(5_000)
  const [first, second] = [randomUUID(), randomUUID()]
  const allocate = async (/** @type {string} */ sessionID) => {
    const match = startMatch(fleet, sessionID, ['amie'])
    await clock.advance(5_000)
    return match
  }
  const match = await allocate(first)
  assert.deepEqual(await allocate(first), match)
  assert.notDeepEqual(await allocate(second), match)
  await fleet.close()
})
