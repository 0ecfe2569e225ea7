/** Which server an allocation gets, and the error if it gets none. */
import { fc, test } from '@fast-check/vitest'
import { describe, expect, it } from 'vitest'
import { isAllocatable, noServerCode, pickServer, sessionKey } from '../../../src/rules/planning/allocation.js'
import { type Server, serverStates } from '../../../src/rules/model/resources.js'
import { aServer, frozen } from '../support.js'

describe('isAllocatable', () => {
  it.each(serverStates)('is true only for StandingBy: %s', (state) => {
    expect(isAllocatable(aServer(state))).toBe(state === 'StandingBy')
  })

  it('is false for an Unhealthy server', () => {
    expect(isAllocatable(aServer('StandingBy', { health: 'Unhealthy' }))).toBe(false)
  })

  it('is false for a server without an address', () => {
    const { address: _address, ...unknown } = aServer('StandingBy')
    expect(isAllocatable(frozen<Server>(unknown))).toBe(false)
    expect(isAllocatable(aServer('StandingBy', { address: '' }))).toBe(false)
  })

  it('is true for a server without ports', () => {
    expect(isAllocatable(aServer('StandingBy', { ports: [] }))).toBe(true)
  })
})

describe('pickServer', () => {
  const none = { first: undefined }

  it('returns the server that became ready first', () => {
    expect(pickServer({ first: 'first' }, none)).toBe('first')
  })

  it('returns a server with an earlier template only if there is no other', () => {
    expect(pickServer({ first: 'new' }, { first: 'old' })).toBe('new')
    expect(pickServer(none, { first: 'old' })).toBe('old')
  })

  it('returns nothing if there is no server', () => {
    expect(pickServer(none)).toBeUndefined()
    expect(pickServer(none, none)).toBeUndefined()
  })
})

describe('noServerCode', () => {
  it.each([
    ['every server is in use', 3, 3, 'max-reached'],
    ['more than max are in use', 4, 3, 'max-reached'],
    ['one more server may be created', 2, 3, 'none-standing-by'],
    ['max is 0', 0, 0, 'max-reached'],
  ] as const)('when %s', (_when, inUse, max, reason) => {
    expect(noServerCode(inUse, max)).toBe(reason)
  })
})

describe('sessionKey', () => {
  test.prop([fc.uuid()])('is the same for a GUID in upper and lower case', (id) => {
    expect(sessionKey(id.toUpperCase())).toBe(sessionKey(id))
  })

  test.prop([fc.uuid(), fc.uuid()])('differs for different GUIDs', (one, other) => {
    expect(sessionKey(one) === sessionKey(other)).toBe(one === other)
  })
})
