/** Scaling policies that are webhooks, through the facade: when they are asked, and what holds while they are away. */
import type { BuildSpec, Fleet, FleetOptions, WebhookPolicy } from 'gamekeeper'
import { describe, expect, it } from 'vitest'
import type { AskWebhook, WebhookRequest } from '../../src/contracts/scaling-demand.js'
import { aBuild, ask, nth, only, session, stage, untilReady } from './stage.js'

const minute = 60_000
const url = 'https://demand.example/arena?key=hidden'
const scalingOf = (webhook: Partial<WebhookPolicy> = {}): NonNullable<BuildSpec['scaling']> => ({
  webhook: { url, ...webhook },
  scaleDown: { delaySeconds: 0, perMinute: 100_000 },
  overrideSeconds: 600,
})

interface Asked extends WebhookRequest {
  readonly atMs: number
}

/** A fleet with one build, whose webhook answers as `answer` does. */
async function opened(
  answer: () => unknown,
  webhook: Partial<WebhookPolicy> = {},
  options: Partial<FleetOptions> = {},
) {
  const asked: Asked[] = []
  const demand = { answer }
  const askWebhook: AskWebhook = async (request) => {
    asked.push({ ...request, atMs: scene.clock.elapsed() })
    return demand.answer()
  }
  const scene = stage({ askWebhook })
  const allowed = { scalingWebhooks: ['https://demand.example'], ...options }
  const fleet = await scene.open(allowed)
  await fleet.builds.create(aBuild({ standingBy: 1, max: 20, scaling: scalingOf(webhook) }))
  await scene.clock.advance(10_000)
  return { scene, fleet, asked, demand, open: () => scene.open(allowed) }
}

async function decided(fleet: Fleet) {
  const { status } = await fleet.builds.get('arena')
  return { ready: status.currentStandingBy, ...status.scaling }
}

const away = () => {
  throw new Error('it answered with status 503')
}

describe('a webhook', () => {
  it('is sent the demand, and decides with its answer', async () => {
    const { fleet, asked } = await opened(() => ({ standingBy: 6.5 }))
    expect(await decided(fleet)).toEqual({
      ready: 7,
      standingBy: 7,
      decider: 'webhook',
      message: 'standingBy asks for 1; webhook asks for 7',
    })
    const { body, timeoutMs, url: called } = nth(asked, 0)
    expect([called, timeoutMs]).toEqual([url, 5_000])
    expect(body).toEqual({
      build: { namespace: 'default', name: 'arena' },
      counts: { pending: 0, initializing: 0, standingBy: 0, active: 0, terminating: 0, inUse: 0 },
      waiting: 0,
      standingBy: 1,
      max: 20,
      now: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
    })
  })

  it('is asked every 30 s, and 10 s after the last time if the demand changes', async () => {
    const { scene, fleet, asked } = await opened(() => ({ standingBy: 2 }))
    await scene.clock.advance(5 * minute)
    const pauses = () => asked.slice(1).map(({ atMs }, i) => atMs - nth(asked, i).atMs)
    expect(new Set(pauses())).toEqual(new Set([30_000]))
    const before = asked.length
    await scene.clock.until(() => asked.length > before)
    for (let id = 1; id <= 3; id++) {
      await fleet.allocate(ask(id), { waitMs: 30_000 })
      await scene.clock.advance(1_000)
    }
    await scene.clock.advance(20_000)
    expect(pauses().slice(before)).toEqual([10_000])
    expect(asked.at(-1)?.body.counts).toMatchObject({ inUse: 3, active: 3 })
  })

  it('keeps its last answer while it is away, for a time, and then asks for something else', async () => {
    const { scene, fleet, asked, demand } = await opened(() => ({ standingBy: 7 }), { holdSeconds: 120, otherwise: 3 })
    expect((await decided(fleet)).ready).toBe(7)
    demand.answer = away
    await scene.clock.advance(100_000)
    expect(await decided(fleet)).toMatchObject({
      ready: 7,
      decider: 'webhook',
      message: expect.stringMatching(
        /; webhook asks for 7, as it answered at \S+Z, and not since then: it answered with status 503$/,
      ),
    })
    const failures = asked.filter(({ atMs }) => atMs > 40_000).map(({ atMs }) => atMs)
    expect(failures.length).toBeLessThanOrEqual(7)
    await scene.clock.advance(minute)
    expect(await decided(fleet)).toMatchObject({
      ready: 3,
      message: expect.stringMatching(
        /; webhook asks for 3, as it has not answered since \S+Z: it answered with status 503$/,
      ),
    })
    expect(scene.eventsOf('StandingByDecided').map(({ before, standingBy }) => [before, standingBy])).toEqual([
      [3, 7],
      [7, 3],
    ])
    demand.answer = () => ({ standingBy: 5 })
    await scene.clock.advance(30_000)
    expect(await decided(fleet)).toMatchObject({ ready: 5, message: 'standingBy asks for 1; webhook asks for 5' })
  })

  it('that answers with rubbish counts as away, and says so', async () => {
    const { scene, fleet, demand } = await opened(() => ({ standingBy: 4 }))
    demand.answer = () => ({ standingBy: 'many' })
    await scene.clock.advance(minute)
    expect(await decided(fleet)).toMatchObject({
      ready: 4,
      message: expect.stringMatching(/not since then: the answer must be a finite number ≥ 0, but is "many"$/),
    })
  })

  it('has one request in progress, which the decision does not wait for', async () => {
    const { scene, fleet, asked } = await opened(() => new Promise(() => {}))
    await fleet.allocate(ask(1), { waitMs: 30_000 })
    await scene.clock.advance(5 * minute)
    expect(asked).toHaveLength(1)
    expect(await decided(fleet)).toMatchObject({
      ready: 1,
      decider: 'standingBy',
      message: 'standingBy asks for 1; webhook asks for 0 until it answers',
    })
  })

  it('of an origin that the host does not allow is never called', async () => {
    const { fleet, asked } = await opened(
      () => ({ standingBy: 9 }),
      {},
      { scalingWebhooks: ['https://demand.example:8443'] },
    )
    expect(asked).toEqual([])
    const { message, ready } = await decided(fleet)
    expect(ready).toBe(1)
    expect(message).toBe(
      'standingBy asks for 1; webhook asks for nothing: this host may not call https://demand.example: add it to scalingWebhooks, or SCALING_WEBHOOKS of the bundled server',
    )
  })

  it('is not asked while a number set by hand overrides it, or nobody uses the build', async () => {
    const { scene, fleet, asked } = await opened(() => ({ standingBy: 4 }))
    await fleet.builds.patch('arena', { standingBy: 2 })
    await scene.clock.advance(1_000)
    const before = asked.length
    await scene.clock.advance(5 * minute)
    expect([asked.length, (await decided(fleet)).decider]).toEqual([before, 'override'])
    await scene.clock.advance(6 * minute)
    expect(await decided(fleet)).toMatchObject({ ready: 4, decider: 'webhook' })
    await fleet.builds.update('arena', { scaling: { ...scalingOf(), idleSeconds: 60 } })
    await scene.clock.advance(2 * minute)
    const idle = asked.length
    await scene.clock.advance(5 * minute)
    expect([asked.length, (await decided(fleet)).decider]).toEqual([idle, 'idle'])
    void fleet.allocate(ask(1), { waitMs: 30_000 })
    await scene.clock.advance(20_000)
    expect(await decided(fleet)).toMatchObject({ ready: 4, decider: 'webhook' })
  })

  it('with another URL is another webhook, and an answer of the first comes too late', async () => {
    const answers: ((answer: unknown) => void)[] = []
    const { scene, fleet, asked } = await opened(() => new Promise((resolve) => answers.push(resolve)))
    const other = 'https://demand.example/other'
    await fleet.builds.update('arena', { scaling: scalingOf({ url: other }) })
    await scene.clock.advance(1_000)
    expect(asked.map((one) => [one.url, one.signal.aborted])).toEqual([
      [url, true],
      [other, false],
    ])
    nth(answers, 0)({ standingBy: 9 })
    await scene.clock.advance(1_000)
    expect((await decided(fleet)).standingBy).toBe(1)
    nth(answers, 1)({ standingBy: 3 })
    await untilReady(scene, fleet, 3)
    await fleet.builds.update('arena', { scaling: undefined })
    await scene.clock.advance(5 * minute)
    expect(asked).toHaveLength(2)
  })

  it('is not waited for when the host closes, and is asked by the next host', async () => {
    const { scene, fleet, asked, demand, open } = await opened(() => new Promise(() => {}))
    await fleet.close()
    expect(only(asked).signal.aborted).toBe(true)
    demand.answer = () => ({ standingBy: 5 })
    const next = await open()
    await untilReady(scene, next, 5)
    expect(asked).toHaveLength(2)
    await next.allocate(ask(1))
    expect((await next.sessions.get(session(1))).sessionID).toBe(session(1))
  })
})

describe('a webhook that is wrong', () => {
  it.each<[object, RegExp]>([
    [{}, /^spec.scaling.webhook.url /],
    [
      { url: 'demand.example' },
      /^spec.scaling.webhook.url must be an absolute http: or https: URL, but is "demand.example"/,
    ],
    [{ url: 'file:///etc/passwd' }, /^spec.scaling.webhook.url must be an absolute http: or https: URL/],
    [{ url: 'https://me:secret@demand.example' }, /^spec.scaling.webhook.url must not contain credentials$/],
    [{ url, everySeconds: 0 }, /^spec.scaling.webhook.everySeconds must be an integer ≥ 1/],
    [
      { url, everySeconds: 600 },
      /^spec.scaling.webhook.holdSeconds must be at least everySeconds \(600\) and timeoutSeconds \(5\) together, but is 300/,
    ],
    [{ url, secret: 'x' }, /^spec.scaling.webhook.secret is not allow/],
  ])('%j is refused by name', async (webhook, message) => {
    const fleet = await stage().open()
    const scaling = { webhook } as NonNullable<BuildSpec['scaling']>
    await expect(fleet.builds.create(aBuild({ scaling }))).rejects.toMatchObject({
      code: 'invalid',
      message: expect.stringMatching(message),
    })
  })
})

describe('createFleet', () => {
  it.each<[unknown, string]>([
    [
      'https://demand.example',
      'must be an array of origins, such as [\'https://demand.example\'], but is "https://demand.example"',
    ],
    [
      ['https://demand.example/'],
      'must be origins like https://demand.example, without a path, but one is "https://demand.example/"',
    ],
    [['*'], 'must be origins like https://demand.example, without a path, but one is "*"'],
    [
      ['ftp://demand.example'],
      'must be origins like https://demand.example, without a path, but one is "ftp://demand.example"',
    ],
  ])('refuses scalingWebhooks %j', async (scalingWebhooks, must) => {
    const refused = stage().open({ scalingWebhooks } as Partial<FleetOptions>)
    await expect(refused).rejects.toMatchObject({ code: 'invalid', message: `createFleet: scalingWebhooks ${must}` })
  })
})
