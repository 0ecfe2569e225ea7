/** Logs of servers that have ended, for backends whose logs go with the instance. */
import { describe, expect, it } from 'vitest'
import { KeptLogs, type KeptLogsOptions } from '../../../adapters/shared/kept-logs.js'
import type { LogsOptions } from '../../../src/contracts/backend.js'
import { FleetError } from '../../../src/contracts/errors.js'
import { silentLogger } from '../../../src/contracts/logger.js'
import { virtualClock } from '../../../src/testing/virtual-clock.js'

const ref = (name: string) => ({ namespace: 'default', name })

function scene(options: KeptLogsOptions = {}) {
  const clock = virtualClock()
  /** What each game has printed; a game that is not there has no log. */
  const printed = new Map<string, string[]>()
  const endings = new Map<string, () => void>()
  async function* logs(
    { name }: { readonly name: string },
    { follow = false, tail = Infinity, origin, signal }: LogsOptions,
  ) {
    const of = (all: readonly string[]) => all.map((line) => (origin ? `t stderr ${line}` : line))
    const lines = printed.get(name)
    if (!lines) throw new FleetError('not-found', `no ${name}`)
    const first = lines.length
    if (tail > 0) yield* of(lines.slice(-tail))
    if (!follow) return
    await new Promise<void>((resolve) => {
      endings.set(name, resolve)
      signal?.addEventListener('abort', () => resolve())
    })
    yield* of(lines.slice(first))
  }
  const resolved = { logRetentionMs: 60_000, keptLogBytes: 120, maxKeptLogs: 3, ...options }
  const kept = new KeptLogs({ options: resolved, clock, logger: silentLogger, logs })
  const end = async (name: string, goodbye: readonly string[] = []) => {
    const ended = kept.destroy(ref(name), true, async () => {
      printed.get(name)?.push(...goodbye)
      endings.get(name)?.()
      printed.delete(name)
    })
    await clock.settle()
    await ended
    await clock.settle()
  }
  return { clock, kept, printed, end, lines: (name: string, options?: LogsOptions) => kept.lines(ref(name), options) }
}

describe('the kept log of a server that has ended', () => {
  it('has what it printed before its end and until then', async () => {
    const { printed, end, lines } = scene()
    printed.set('a', ['up', 'match over'])
    await end('a', ['goodbye'])
    expect(lines('a')).toEqual(['up', 'match over', 'goodbye'])
    expect(lines('a', { tail: 2 })).toEqual(['match over', 'goodbye'])
    expect(lines('a', { tail: 0 })).toEqual([])
    expect(lines('a', { tail: 1, origin: true })).toEqual(['t stderr goodbye'])
    expect(lines('b')).toBeUndefined()
  })

  it('is cut to its last bytes, and to the last logs', async () => {
    const { printed, end, lines } = scene()
    printed.set('long', ['x'.repeat(60), 'y'.repeat(60), 'z'.repeat(30)])
    await end('long')
    expect(lines('long')).toEqual(['y'.repeat(60), 'z'.repeat(30)])
    for (const name of ['a', 'b', 'c']) {
      printed.set(name, [name])
      await end(name)
    }
    expect(['long', 'a', 'b', 'c'].map((name) => lines(name)?.[0])).toEqual([undefined, 'a', 'b', 'c'])
  })

  it('is forgotten after its time', async () => {
    const { clock, printed, end, lines } = scene()
    printed.set('a', ['up'])
    await end('a')
    await clock.advance(59_000)
    expect(lines('a')).toEqual(['up'])
    await clock.advance(1_000)
    expect(lines('a')).toBeUndefined()
  })

  it('stays when the end is tried again after the instance has gone', async () => {
    const { printed, end, lines } = scene()
    printed.set('a', ['up'])
    await end('a')
    await end('a')
    expect(lines('a')).toEqual(['up'])
  })

  it('does not hold up the end of a server whose log cannot be read in time', async () => {
    const clock = virtualClock()
    // eslint-disable-next-line require-yield
    async function* logs(_: unknown, { signal }: LogsOptions) {
      await new Promise<void>((resolve) => signal?.addEventListener('abort', () => resolve()))
    }
    const options = { logRetentionMs: 60_000, keptLogBytes: 100, maxKeptLogs: 3 }
    const kept = new KeptLogs({ options, clock, logger: silentLogger, logs })
    let isOver = false
    const ended = kept.destroy(ref('a'), true, async () => void (isOver = true))
    await clock.advance(2_000)
    await ended
    expect(isOver).toBe(true)
    await clock.advance(2_000)
    expect(kept.lines(ref('a'))).toBeUndefined()
  })

  it('is not waited for when the host closes: the server is ended by then', async () => {
    // eslint-disable-next-line require-yield
    async function* logs(_: unknown, { signal }: LogsOptions) {
      await new Promise<void>((resolve) => signal?.addEventListener('abort', () => resolve()))
    }
    const options = { logRetentionMs: 60_000, keptLogBytes: 100, maxKeptLogs: 3 }
    const kept = new KeptLogs({ options, clock: virtualClock(), logger: silentLogger, logs })
    let isEnding = false
    void kept.destroy(ref('a'), true, async () => {
      isEnding = true
    })
    await kept.close()
    expect(isEnding).toBe(true)
  })

  it('is no longer waited for when the server is to be destroyed once more, which then happens in that order', async () => {
    const { clock, kept, printed } = scene()
    printed.set('a', ['up'])
    const endless: AsyncIterable<string> = { [Symbol.asyncIterator]: () => ({ next: () => new Promise(() => {}) }) }
    const options = { logRetentionMs: 60_000, keptLogBytes: 120, maxKeptLogs: 3 }
    const stuck = new KeptLogs({ options, clock, logger: silentLogger, logs: () => endless })
    for (const [one, isKept] of [
      [kept, false],
      [stuck, true],
    ] as const) {
      const order: number[] = []
      const calls = [3_600, 60, 30].map((grace, n) =>
        one.destroy(ref('a'), n === 0 || isKept, async () => void order.push(grace)),
      )
      await clock.settle()
      expect(order).toEqual([3_600, 60, 30])
      await Promise.all(calls)
    }
  })

  it('is read no further, and holds up no close, if the end fails at once', async () => {
    const open: AbortSignal[] = []
    // eslint-disable-next-line require-yield
    async function* logs(_: unknown, { follow, signal }: LogsOptions) {
      if (!follow || !signal) return
      open.push(signal)
      await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()))
    }
    const options = { logRetentionMs: 60_000, keptLogBytes: 100, maxKeptLogs: 3 }
    const clock = virtualClock()
    const kept = new KeptLogs({ options, clock, logger: silentLogger, logs })
    const refused = () => {
      throw new Error('refused')
    }
    await expect(kept.destroy(ref('a'), true, refused)).rejects.toThrow('refused')
    await clock.advance(2_000)
    expect(open.map(({ aborted }) => aborted)).toEqual([true])
    await kept.close()
  })

  it('is not kept with a retention of 0', async () => {
    const { printed, end, lines } = scene({ logRetentionMs: 0 })
    printed.set('a', ['up'])
    await end('a')
    expect(lines('a')).toBeUndefined()
  })
})
