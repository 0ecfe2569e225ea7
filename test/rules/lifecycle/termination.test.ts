/** When a terminating server gets its signal: after Terminate in a heartbeat answer, or at once. */
import { describe, expect, it } from 'vitest'
import {
  nextTerminationStep,
  remainingGraceMs,
  type TerminationInput,
  type TerminationStep,
} from '../../../src/rules/lifecycle/termination.js'
import { frozen } from '../support.js'

/** A server that sent a heartbeat half a second ago and has not received Terminate yet. */
const heard: TerminationInput = frozen({
  order: 'HeartbeatFirst',
  graceMs: 30_000,
  hasEnded: false,
  sinceTerminateMs: undefined,
  sinceHeartbeatMs: 500,
  silenceMs: 10_000,
})

const wait = (ms: number): TerminationStep => ({ type: 'wait', ms })
const signal = (graceMs: number): TerminationStep => ({ type: 'signal', graceMs })

describe('a terminating server', () => {
  it.each<[string, Partial<TerminationInput>, TerminationStep]>([
    ['that was heard waits for its next heartbeat', {}, wait(9_500)],
    [
      'that is silent for the limit gets the signal, with its whole grace period',
      { sinceHeartbeatMs: 10_000 },
      signal(30_000),
    ],
    ['that sends no heartbeats gets the signal at once', { sinceHeartbeatMs: undefined }, signal(30_000)],
    ['that has just received Terminate waits until 5 s before the end', { sinceTerminateMs: 0 }, wait(25_000)],
    ['gets the signal 5 s before the end', { sinceTerminateMs: 25_000 }, signal(5_000)],
    ['is killed after the signal when its whole grace period is over', { sinceTerminateMs: 27_000 }, signal(3_000)],
    ['is killed at once after its grace period', { sinceTerminateMs: 31_000 }, signal(0)],
    [
      'waits on if it sends no heartbeats after Terminate',
      { sinceTerminateMs: 1_000, sinceHeartbeatMs: undefined },
      wait(24_000),
    ],
    ['with 8 s gets the signal in its last quarter', { graceMs: 8_000, sinceTerminateMs: 0 }, wait(6_000)],
    ['with 8 s gets 2 s after the signal', { graceMs: 8_000, sinceTerminateMs: 6_000 }, signal(2_000)],
    ['without a grace period is killed at once', { graceMs: 0 }, signal(0)],
    ['without a grace period is killed at once after Terminate', { graceMs: 0, sinceTerminateMs: 0 }, signal(0)],
    ['that has ended is removed at once', { hasEnded: true }, signal(30_000)],
    ['that has ended after Terminate is removed at once', { hasEnded: true, sinceTerminateMs: 10_000 }, signal(20_000)],
    ['with SignalFirst gets the signal at once', { order: 'SignalFirst' }, signal(30_000)],
    [
      'with SignalFirst has its whole grace period from the signal',
      { order: 'SignalFirst', sinceTerminateMs: 9_000 },
      signal(30_000),
    ],
  ])('%s', (_, change, step) => {
    expect(nextTerminationStep({ ...heard, ...change })).toEqual(step)
  })

  it('has its grace period from Terminate or, without it, from the signal', () => {
    expect(remainingGraceMs(heard)).toBe(30_000)
    expect(remainingGraceMs({ ...heard, sinceTerminateMs: 12_000 })).toBe(18_000)
    expect(remainingGraceMs({ ...heard, sinceTerminateMs: 40_000 })).toBe(0)
  })
})
