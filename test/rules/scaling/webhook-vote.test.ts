/** What a webhook asks for, given its answers, and when it is asked again. */
import { fc, test } from '@fast-check/vitest'
import { describe, expect, it } from 'vitest'
import {
  answeredNumber,
  forbiddenWebhookVote,
  nextRequestMs,
  unasked,
  type WebhookAnswers,
  webhookVote,
} from '../../../src/rules/scaling/webhook-vote.js'

const wall = Date.parse('2026-01-05T17:30:00Z')
const policy = { url: 'https://demand.example/arena' }
const at = (elapsed: number) => ({ wall: wall + elapsed, elapsed })
const answered = (standingBy: number, elapsed = 0): WebhookAnswers => ({
  answer: { standingBy, at: at(elapsed) },
  failure: undefined,
  asked: { at: elapsed, about: 'now' },
})
const failed = (before: WebhookAnswers, failure = 'no answer within 5 s'): WebhookAnswers => ({ ...before, failure })

describe('a webhook', () => {
  it.each<[string, WebhookAnswers, number, number, string, number | undefined]>([
    ['asks for `otherwise` before its first answer', unasked, 0, 4, 'asks for 4 until it answers', undefined],
    ['says why it has none', failed(unasked), 0, 4, 'asks for 4 until it answers: no answer within 5 s', undefined],
    ['asks for its last answer', answered(7), 10_000, 7, 'asks for 7', 50_000],
    [
      'asks for it while no other comes, and says how old it is and why',
      failed(answered(7)),
      59_999,
      7,
      'asks for 7, as it answered at 2026-01-05T17:30:00Z, and not since then: no answer within 5 s',
      1,
    ],
    [
      'asks for `otherwise` once that answer is too old',
      failed(answered(7)),
      60_000,
      4,
      'asks for 4, as it has not answered since 2026-01-05T17:30:00Z: no answer within 5 s',
      undefined,
    ],
    [
      'asks for `otherwise` if it was not asked for so long',
      answered(7),
      90_000,
      4,
      'asks for 4, as it has not answered since 2026-01-05T17:30:00Z',
      undefined,
    ],
    ['may ask for 0', answered(0), 0, 0, 'asks for 0', 60_000],
  ])('%s', (_, answers, elapsed, standingBy, asks, nextMs) => {
    const vote = webhookVote({ ...policy, holdSeconds: 60, otherwise: 4 }, answers, at(elapsed))
    expect(vote).toEqual({
      by: 'webhook',
      standingBy,
      reason: `webhook ${asks}`,
      ...(nextMs !== undefined && { nextMs }),
    })
  })

  it('holds its answer for 300 s, and asks for 0 after that, unless the policy says otherwise', () => {
    expect(webhookVote(policy, answered(7), at(299_999)).standingBy).toBe(7)
    expect(webhookVote(policy, answered(7), at(300_000)).standingBy).toBe(0)
  })

  it('does not hold for longer or shorter when the wall clock is set', () => {
    const later = { wall: wall + 86_400_000, elapsed: 10_000 }
    expect(webhookVote(policy, failed(answered(7)), later)).toMatchObject({ standingBy: 7, nextMs: 290_000 })
  })

  it('of an origin that is not allowed asks for nothing, and its path is not told', () => {
    expect(forbiddenWebhookVote('https://demand.example:8443/arena?key=secret')).toEqual({
      by: 'webhook',
      standingBy: 0,
      reason:
        'webhook asks for nothing: this host may not call https://demand.example:8443: add it to scalingWebhooks, or SCALING_WEBHOOKS of the bundled server',
    })
  })

  it.each<[string, WebhookAnswers, number, number]>([
    ['at once', unasked, 0, 0],
    ['every 30 s', answered(7), 1_000, 29_000],
    [
      '10 s after the last request if the demand has changed',
      { ...answered(7), asked: { at: 0, about: 'then' } },
      1_000,
      9_000,
    ],
    ['10 s after a request that failed', failed(answered(7)), 4_000, 6_000],
    ['at once if that is over', failed(answered(7)), 11_000, 0],
  ])('is asked %s', (_, answers, elapsed, ms) => {
    expect(nextRequestMs(policy, answers, 'now', at(elapsed))).toBe(ms)
  })

  it('is asked less often if the policy says so, and before its answer is too old', () => {
    const slow = { ...policy, everySeconds: 120 }
    expect(nextRequestMs(slow, answered(7), 'now', at(0))).toBe(120_000)
    expect(nextRequestMs(slow, answered(7), 'other', at(0))).toBe(120_000)
    expect(nextRequestMs({ ...policy, holdSeconds: 20 }, answered(7), 'now', at(0))).toBe(15_000)
  })

  it.each<[unknown, object]>([
    [{ standingBy: 2 }, { standingBy: 2 }],
    [{ standingBy: 2.1, more: true }, { standingBy: 3 }],
    [{ standingBy: -1 }, { problem: 'the answer must be a finite number ≥ 0, but is -1' }],
    [{}, { problem: 'the answer must be like {"standingBy":2}, but is {}' }],
    [[2], { problem: 'the answer must be like {"standingBy":2}, but is [2]' }],
    [null, { problem: 'the answer must be like {"standingBy":2}, but is null' }],
  ])('that answers %j', (body, read) => {
    expect(answeredNumber(body)).toEqual(read)
  })

  const policies = fc
    .record({ everySeconds: fc.integer({ min: 1, max: 600 }), timeoutSeconds: fc.integer({ min: 1, max: 60 }) })
    .chain((times) =>
      fc.record({
        url: fc.constant(policy.url),
        everySeconds: fc.constant(times.everySeconds),
        timeoutSeconds: fc.constant(times.timeoutSeconds),
        holdSeconds: fc.integer({ min: times.everySeconds + times.timeoutSeconds, max: 2_000 }),
        otherwise: fc.nat(100),
      }),
    )
  test.prop([policies, fc.nat(100), fc.nat(2_000_000), fc.boolean(), fc.boolean()])(
    'is asked in time for its answer to be replaced while it still holds, and not too often',
    (some, standingBy, elapsed, isSame, hasFailed) => {
      const before = hasFailed ? failed(answered(standingBy)) : answered(standingBy)
      const ms = nextRequestMs(some, before, isSame ? 'now' : 'other', at(0))
      expect(ms).toBeGreaterThanOrEqual(some.everySeconds * 1_000)
      expect(ms + some.timeoutSeconds * 1_000).toBeLessThanOrEqual(some.holdSeconds * 1_000)
      const vote = webhookVote(some, before, at(elapsed))
      expect(vote.standingBy).toBe(elapsed < some.holdSeconds * 1_000 ? standingBy : some.otherwise)
      expect(vote.nextMs === undefined || vote.nextMs >= 1).toBe(true)
    },
  )
})
