/** Waiting with an abort signal. */
import { setImmediate as turn } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { unlessAborted } from '../../src/util/signals.js'

const never = new Promise<never>(() => {})

describe('unlessAborted', () => {
  it('settles like the work that it wraps', async () => {
    const { signal } = new AbortController()
    expect(await unlessAborted(Promise.resolve(1), undefined)).toBe(1)
    expect(await unlessAborted(Promise.resolve(2), signal)).toBe(2)
    await expect(unlessAborted(Promise.reject(new Error('no')), signal)).rejects.toThrow('no')
  })

  it('rejects when the signal fires or has already fired', async () => {
    const aborter = new AbortController()
    const waits = unlessAborted(never, aborter.signal)
    aborter.abort(new Error('enough'))
    await expect(waits).rejects.toMatchObject({ code: 'aborted', cause: { message: 'enough' } })
    await expect(unlessAborted(never, aborter.signal)).rejects.toMatchObject({ code: 'aborted' })
  })

  it('causes no unhandled rejection if the work fails later', async () => {
    let fail = (_: Error) => {}
    const work = new Promise<never>((_, reject) => (fail = reject))
    await expect(unlessAborted(work, AbortSignal.abort())).rejects.toMatchObject({ code: 'aborted' })
    fail(new Error('late'))
    await turn()
  })
})
