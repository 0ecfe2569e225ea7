/** Operations in progress: one entry per key, gone once the operation has settled. */
import { describe, expect, it } from 'vitest'
import { InFlight } from '../../../adapters/shared/in-flight.js'

describe('InFlight', () => {
  it('returns the operation until it settles', async () => {
    const operations = new InFlight<string, number>()
    let finish = (_result: number) => {}
    const done = operations.start('a', 'operation', () => new Promise((resolve) => (finish = resolve)))
    expect(operations.get('a')).toEqual({ operation: 'operation', done })
    finish(1)
    expect(await done).toBe(1)
    expect(operations.has('a')).toBe(false)
  })

  it('does not keep an operation that rejects', async () => {
    const operations = new InFlight<string, never>()
    await expect(operations.start('a', 'operation', () => Promise.reject(new Error('failed')))).rejects.toThrow(
      'failed',
    )
    expect(operations.has('a')).toBe(false)
  })

  it('rejects if the operation throws synchronously, and does not keep it', async () => {
    const operations = new InFlight<string, never>()
    const done = operations.start('a', 'operation', () => {
      throw new Error('failed')
    })
    await expect(done).rejects.toThrow('failed')
    expect(operations.has('a')).toBe(false)
    await operations.settled('a')
  })
})
