/** Decisions, "Allocation": which server is handed out, and why none is. */
import { fc, test } from '@fast-check/vitest'
import { describe, expect, it } from 'vitest'
import { isAllocatable, pick, refusal, sessionKey } from '../../../src/rules/planning/allocation.js'
import { type Server, serverStates } from '../../../src/rules/model/resources.js'
import { aServer, frozen } from '../support.js'

describe('isAllocatable', () => {
  it.each(serverStates)('hands out servers that stand by and no others: %s', (state) => {
    expect(isAllocatable(aServer(state))).toBe(state === 'StandingBy')
  })

  it('never hands out an Unhealthy server', () => {
    expect(isAllocatable(aServer('StandingBy', { health: 'Unhealthy' }))).toBe(false)
  })

  it('never hands out a server whose address is not known yet', () => {
    const { address: _address, ...unknown } = aServer('StandingBy')
    expect(isAllocatable(frozen<Server>(unknown))).toBe(false)
    expect(isAllocatable(aServer('StandingBy', { address: '' }))).toBe(false)
  })

  it('asks nothing else: a server without ports is handed out', () => {
    expect(isAllocatable(aServer('StandingBy', { ports: [] }))).toBe(true)
  })
})

describe('pick', () => {
  const none = { first: undefined }

  it('takes the first ready of all', () => {
    expect(pick({ first: 'first' }, none)).toBe('first')
  })

  it('takes one of an earlier template only when there is no other', () => {
    expect(pick({ first: 'new' }, { first: 'old' })).toBe('new')
    expect(pick(none, { first: 'old' })).toBe('old')
  })

  it('takes none of none', () => {
    expect(pick(none)).toBeUndefined()
    expect(pick(none, none)).toBeUndefined()
  })
})

describe('refusal', () => {
  it.each([
    ['every server is in use', 3, 3, 'max-reached'],
    ['more than max are in use', 4, 3, 'max-reached'],
    ['there is room for one more', 2, 3, 'none-standing-by'],
    ['the build is to have none at all', 0, 0, 'max-reached'],
  ] as const)('when %s', (_when, inUse, max, reason) => {
    expect(refusal(inUse, max)).toBe(reason)
  })
})

describe('sessionKey', () => {
  test.prop([fc.uuid()])('is one for all spellings of a GUID', (id) => {
    expect(sessionKey(id.toUpperCase())).toBe(sessionKey(id))
  })

  test.prop([fc.uuid(), fc.uuid()])('tells two GUIDs apart', (one, other) => {
    expect(sessionKey(one) === sessionKey(other)).toBe(one === other)
  })
})
