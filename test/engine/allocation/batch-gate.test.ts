/** The gate of an atomic batch: nothing is reserved until every session has a server. */
import { describe, expect, it } from 'vitest'
import { BatchGate } from '../../../src/engine/allocation/batch-gate.js'

function server(log: string[], name: string) {
  const state = { isFree: true }
  return {
    state,
    held: {
      isFree: () => state.isFree,
      reserve: () => void log.push(`reserved ${name}`),
      release: () => void log.push(`released ${name}`),
    },
  }
}

describe('a gate', () => {
  it('reserves the servers only when each session has one, or had one before', async () => {
    const log: string[] = []
    const gate = new BatchGate(['a', 'b', 'c'])
    const first = gate.hold('a', server(log, '1').held)
    gate.settle('b')
    expect([log, gate.isOpen]).toEqual([[], false])
    const last = gate.hold('c', server(log, '2').held)
    expect([log, gate.isOpen]).toEqual([['reserved 1', 'reserved 2'], true])
    expect(await Promise.all([first, last])).toEqual([true, true])
  })

  it('has a session look for another server if its own has ended meanwhile', async () => {
    const log: string[] = []
    const gate = new BatchGate(['a', 'b'])
    const gone = server(log, '1')
    const first = gate.hold('a', gone.held)
    gone.state.isFree = false
    const second = gate.hold('b', server(log, '2').held)
    expect(await first).toBe(false)
    expect([log, gate.isOpen]).toEqual([['released 1'], false])
    expect(await gate.hold('a', server(log, '3').held)).toBe(true)
    expect(await second).toBe(true)
    expect(log).toEqual(['released 1', 'reserved 2', 'reserved 3'])
  })

  it('gives up every server when one session gets none, and each that comes later', async () => {
    const log: string[] = []
    const gate = new BatchGate(['a', 'b', 'c'])
    const first = gate.hold('a', server(log, '1').held)
    const error = new Error('none is standing by')
    gate.fail(error)
    gate.fail(new Error('another'))
    await expect(first).rejects.toBe(error)
    await expect(gate.hold('b', server(log, '2').held)).rejects.toBe(error)
    expect(log).toEqual(['released 1', 'released 2'])
  })

  it('does not fail once it is open', async () => {
    const log: string[] = []
    const gate = new BatchGate(['a'])
    await gate.hold('a', server(log, '1').held)
    gate.fail(new Error('late'))
    expect(await gate.hold('a', server(log, '2').held)).toBe(true)
  })
})
