/** Scaling policies that are functions of the host app, through the facade. */
import type { Fleet, FleetOptions, ScalingFunction, ScalingFunctionInput } from 'gamekeeper'
import { describe, expect, it } from 'vitest'
import { aBuild, ask, stage, type Stage } from './stage.js'

const minute = 60_000
const scaling = { function: 'match-day', scaleDown: { delaySeconds: 0, perMinute: 100_000 } }

async function opened(decide: ScalingFunction, options: Partial<FleetOptions> = {}) {
  const scene = stage()
  const fleet = await scene.open({ scalingPolicies: { 'match-day': decide }, ...options })
  await fleet.builds.create(aBuild({ standingBy: 1, max: 20, scaling }))
  await scene.clock.advance(10_000)
  return { scene, fleet }
}

async function decided(fleet: Fleet) {
  const { status } = await fleet.builds.get('arena')
  return { ready: status.currentStandingBy, ...status.scaling }
}

/** Has the fleet decide again. */
async function next(scene: Stage): Promise<void> {
  await scene.clock.advance(minute + 10_000)
}

describe('a function of the host app', () => {
  it('decides by the servers and callers of the build, at each event that changes them', async () => {
    const inputs: ScalingFunctionInput[] = []
    const { scene, fleet } = await opened((input) => {
      inputs.push(input)
      return input.counts.inUse / 2 + 2
    })
    expect(await decided(fleet)).toEqual({
      ready: 2,
      standingBy: 2,
      decider: 'function',
      message: 'standingBy asks for 1; function match-day asks for 2',
    })
    for (let id = 1; id <= 3; id++) await fleet.allocate(ask(id), { waitMs: 30_000 })
    await scene.clock.advance(10_000)
    expect(await decided(fleet)).toMatchObject({ ready: 4, decider: 'function' })
    const { now, history, ...last } = inputs.at(-1) ?? { now: undefined, history: undefined }
    // Until what an earlier host may have counted of the day was read, it is not known.
    expect(history?.(now)).toBeUndefined()
    await scene.clock.settle()
    expect(history?.(now)).toMatchObject({ asked: 3, refused: 0, inUse: 3 })
    expect(history?.(new Date(0))).toBeUndefined()
    expect(last).toEqual({
      build: { namespace: 'default', name: 'arena' },
      counts: { pending: 0, initializing: 0, standingBy: 4, active: 3, terminating: 0, inUse: 3 },
      waiting: 0,
      standingBy: 1,
      max: 20,
    })
    expect(Math.abs(scene.clock.now() - Number(now))).toBeLessThan(minute)
    const calls = inputs.length
    await next(scene)
    expect(inputs.length).toBeGreaterThan(calls)
    expect(scene.eventsOf('StandingByDecided').at(-1)).toMatchObject({ decider: 'function', standingBy: 4 })
  })

  it('hears of callers that wait, and may wake a build without servers', async () => {
    const waiting: number[] = []
    const { scene, fleet } = await opened((input) => {
      waiting.push(input.waiting)
      return input.waiting > 0 ? 3 : 0
    })
    await fleet.builds.update('arena', { standingBy: 0, scaling: { ...scaling, overrideSeconds: 0 } })
    await next(scene)
    expect((await decided(fleet)).ready).toBe(0)
    const allocated = fleet.allocate(ask(1), { waitMs: 30_000 })
    await scene.clock.advance(100)
    expect(Math.max(...waiting)).toBe(1)
    await scene.clock.advance(10_000)
    await allocated
  })

  it('that fails keeps its last answer, says what is wrong and is logged once', async () => {
    const logged: [object, string?][] = []
    const logger = { debug() {}, info() {}, warn: (...entry: [object, string?]) => logged.push(entry), error() {} }
    let answer: () => unknown = () => 5
    const { scene, fleet } = await opened((() => answer()) as ScalingFunction, { logger })
    expect((await decided(fleet)).ready).toBe(5)
    answer = () => {
      throw new Error('the calendar is empty')
    }
    for (let i = 0; i < 3; i++) await next(scene)
    expect(await decided(fleet)).toMatchObject({
      ready: 5,
      decider: 'function',
      message:
        'standingBy asks for 1; function match-day asks for 5, as it answered last: it threw "the calendar is empty"',
    })
    answer = () => Promise.reject(new Error('must not end the process'))
    for (let i = 0; i < 3; i++) await next(scene)
    expect((await decided(fleet)).message).toMatch(/but is a promise$/)
    const failures = logged.filter(([, text]) => text?.startsWith('scaling function failed'))
    expect(failures.map(([fields]) => fields)).toEqual([
      { function: 'match-day', reason: 'it threw "the calendar is empty"' },
      { function: 'match-day', reason: expect.stringContaining('a promise') },
    ])
    answer = () => 2
    await next(scene)
    expect(await decided(fleet)).toMatchObject({
      ready: 2,
      message: 'standingBy asks for 1; function match-day asks for 2',
    })
  })

  it('that has never answered asks for 0', async () => {
    const { fleet } = await opened(() => NaN)
    expect(await decided(fleet)).toMatchObject({
      ready: 1,
      decider: 'standingBy',
      message: expect.stringContaining('until it answers'),
    })
  })

  it('is at most max, and yields to a number set by hand', async () => {
    const { scene, fleet } = await opened(() => 1e9)
    expect((await decided(fleet)).standingBy).toBe(20)
    await fleet.builds.patch('arena', { standingBy: 3 })
    await next(scene)
    expect(await decided(fleet)).toMatchObject({ standingBy: 3, decider: 'override' })
  })

  it('that this host does not have asks for nothing, and the others count', async () => {
    const { scene, fleet } = await opened(() => 4, { scalingPolicies: { weekend: () => 9, constructor: () => 8 } })
    expect(await decided(fleet)).toMatchObject({
      ready: 1,
      decider: 'standingBy',
      message:
        'standingBy asks for 1; function match-day asks for nothing: this host has no scaling policy match-day; it has weekend, constructor',
    })
    await fleet.builds.update('arena', { scaling: { ...scaling, function: 'toString' } })
    await next(scene)
    expect((await decided(fleet)).message).toContain('this host has no scaling policy toString')
    await fleet.builds.update('arena', { scaling: { ...scaling, function: 'weekend' } })
    await next(scene)
    expect(await decided(fleet)).toMatchObject({ ready: 9, decider: 'function' })
  })
})

describe('createFleet', () => {
  it.each<[unknown, string]>([
    [5, "createFleet: scalingPolicies must be an object of functions, such as { 'match-day': () => 10 }, but is 5"],
    [{ weekend: 5 }, 'createFleet: scalingPolicies.weekend must be a function, but is 5'],
  ])('refuses scalingPolicies %j', async (scalingPolicies, message) => {
    const refused = stage().open({ scalingPolicies } as Partial<FleetOptions>)
    await expect(refused).rejects.toMatchObject({ code: 'invalid', message })
  })
})
