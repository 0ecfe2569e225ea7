/** Which finished GameServerAllocations are removed, and what a host reads from one. */
import { describe, expect, it } from 'vitest'
import { expired, readAllocation } from '../../../../../adapters/kubernetes/store/requested-allocations.js'

const createdAt = '2026-01-01T00:00:00Z'
const created = Date.parse(createdAt)

function finishedAt(name: string, at: number, removeAt: number, namespace = 'games') {
  const object = readAllocation({ metadata: { namespace, name, uid: name, creationTimestamp: createdAt } })
  return { ...object, finished: { at, removeAt, generation: 1 } }
}

const namesOf = (all: ReturnType<typeof expired>) => all.map(({ ref }) => ref.name).toSorted()

describe('finished allocations', () => {
  it('are removed when their time is over', () => {
    const all = [finishedAt('old', 1, 10), finishedAt('new', 5, 11)]
    expect(namesOf(expired(all, 9))).toEqual([])
    expect(namesOf(expired(all, 10))).toEqual(['old'])
    expect(namesOf(expired(all, 11))).toEqual(['new', 'old'])
  })

  it('are removed earlier, the oldest first, where a namespace has too many', () => {
    const all = [
      finishedAt('a', 1, 99),
      finishedAt('c', 3, 99),
      finishedAt('b', 2, 99),
      finishedAt('d', 0, 99, 'other'),
    ]
    expect(namesOf(expired(all, 9, 2))).toEqual(['a'])
    expect(namesOf(expired(all, 9, 1))).toEqual(['a', 'b'])
  })
})

describe('an allocation object', () => {
  const metadata = { namespace: 'games', name: 'match', uid: 'its-uid', creationTimestamp: createdAt, generation: 3 }

  it.each([
    ['its uid', {}, undefined, 'its-uid'],
    ['the sessionID of its spec', { sessionID: 'a' }, undefined, 'a'],
    ['the session that a host has begun with', { sessionID: 'b' }, { sessionID: 'a' }, 'a'],
  ])('has as its session %s', (_, spec, status, sessionID) => {
    expect(readAllocation({ metadata, spec, status }).request.sessionID).toBe(sessionID)
  })

  it('waits and stays as long as it says, counted from its creation and its end', () => {
    const spec = { buildID: 'x', waitSeconds: 5, ttlSecondsAfterFinished: 7, other: 1 }
    const status = { state: 'Failed', finishedAt: '2026-01-01T00:01:00Z', observedGeneration: 2 }
    const read = readAllocation({ metadata, spec, status })
    expect(read).toMatchObject({
      ...{ request: { buildID: 'x' }, waitUntil: created + 5_000, generation: 3 },
      finished: { at: created + 60_000, removeAt: created + 67_000, generation: 2 },
    })
    expect(read.request).not.toHaveProperty('other')
    expect(readAllocation({ metadata, spec: {} }).waitUntil).toBe(created + 60_000)
  })
})
