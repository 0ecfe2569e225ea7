/** What notices a change of leader while a request is carried out. */
import { expect, it } from 'vitest'
import type { LeaderLink } from '../../../src/contracts/elector.js'
import { LeaderChange } from '../../../src/http/forwarding.js'

function linkWithFollowers() {
  const followers = new Set<() => void>()
  const link: LeaderLink = {
    key: () => undefined,
    heard() {},
    leads: () => false,
    leader: () => 'host:1',
    follow(changed) {
      followers.add(changed)
      return () => void followers.delete(changed)
    },
    send: () => Promise.reject(new Error('not part of the test')),
  }
  return { link, followers }
}

it('is released when the caller has gone, although nobody reads its stream', () => {
  const { link, followers } = linkWithFollowers()
  const gone = new AbortController()
  const change = new LeaderChange(link, 'host:1', gone.signal)
  expect(followers.size).toBe(1)
  gone.abort()
  expect(change.signal.aborted).toBe(true)
  expect(followers.size).toBe(0)
})

it('of a caller that has gone already follows nobody', () => {
  const { link, followers } = linkWithFollowers()
  expect(new LeaderChange(link, 'host:1', AbortSignal.abort()).signal.aborted).toBe(true)
  expect(followers.size).toBe(0)
})
