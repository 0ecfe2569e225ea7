import { describe, expect, it } from 'vitest'
import { conditionTypes } from '../../../src/rules/model/build-status.js'
import { type BuildSituation, type FleetSituation, problemsOf } from '../../../src/rules/model/problems.js'
import type { Build, BuildSpec, Server } from '../../../src/rules/model/resources.js'
import { aBuild, aServer } from '../support.js'

const none = { pending: 0, initializing: 0, standingBy: 0, active: 0, terminating: 0 }

function situation(
  record: Partial<Omit<Build, 'spec'>> & { readonly spec?: Partial<BuildSpec> } = {},
  counts: Partial<typeof none> = {},
  isFull = true,
): BuildSituation {
  const build = aBuild()
  const { spec, ...rest } = record
  return { build: { ...build, ...rest, spec: { ...build.spec, ...spec } }, counts: { ...none, ...counts }, isFull }
}

function listed(fleet: Partial<FleetSituation>) {
  return problemsOf({ host: [], builds: [], servers: [], ...fleet })
}

const crash = { at: 5_000, server: 'season-two-ab12c', reason: 'NonZeroExit', message: 'exited with code 3' } as const
const condition = { type: 'Crashing', reason: 'NonZeroExit', message: 'exited with code 3', since: 1_000 } as const
const stopped = {
  name: 'season-two',
  spec: { standingBy: 3, max: 6, crashesToMarkUnhealthy: 30 },
  crashes: 30,
  conditions: [condition],
  recentCrashes: [{ ...crash, output: 'ENOENT canyon.nav' }],
}

describe('the problems of a fleet', () => {
  it('are none while builds have their servers', () => {
    expect(listed({ builds: [situation({ spec: { standingBy: 2, max: 4 } }, { standingBy: 2 })] })).toEqual([])
  })

  it('say of a build at its crash limit that it is stopped, with the last crash, and not that it tries again', () => {
    const [problem, ...others] = listed({ builds: [situation(stopped)] })
    expect(others).toEqual([])
    expect(problem).toEqual({
      severity: 'down',
      kind: 'Unhealthy',
      title: 'season-two is stopped: 30 crashes, 0 of 3 ready',
      cause: 'exited with code 3; its last output: ENOENT canyon.nav',
      action: 'Read the log of the last crash, correct the spec, and raise crashesToMarkUnhealthy.',
      since: 1_000,
      build: { namespace: 'default', name: 'season-two' },
      server: { namespace: 'default', name: 'season-two-ab12c' },
    })
  })

  it('say why a build is stopped whose record has no crashes yet', () => {
    const [problem] = listed({ builds: [situation({ ...stopped, recentCrashes: undefined })] })
    expect(problem).toMatchObject({ kind: 'Unhealthy', cause: 'exited with code 3', since: 1_000 })
    const [bare] = listed({ builds: [situation({ ...stopped, recentCrashes: undefined, conditions: [] })] })
    expect(bare).not.toHaveProperty('since')
  })

  it.each(conditionTypes)('name the condition %s, its message, and what to do', (type) => {
    const build = { conditions: [{ type, reason: 'x', message: 'because', since: 7 }] }
    const [problem, ...others] = listed({ builds: [situation(build)] })
    expect(others).toEqual([])
    expect(problem).toMatchObject({ kind: type, cause: 'because', since: 7 })
    expect(problem?.action).toMatch(/^[A-Z].+\.$/)
  })

  it('are worse while no server is ready', () => {
    const conditions = [{ type: 'CreateBlocked', reason: 'no-ports', message: 'no ports', since: 7 }] as const
    const of = (standingBy: number) =>
      listed({ builds: [situation({ name: 'arena', conditions, spec: { standingBy: 3, max: 9 } }, { standingBy })] })
    expect(of(0)[0]).toMatchObject({ severity: 'down', title: 'arena cannot start servers: 0 of 3 ready' })
    expect(of(1)[0]).toMatchObject({ severity: 'degraded', title: 'arena cannot start servers: 1 of 3 ready' })
  })

  it('say that max is reached, unless a server takes a further session or the build is drained', () => {
    const build = { name: 'arena', spec: { standingBy: 0, max: 2 } }
    const kinds = (one: BuildSituation) => listed({ builds: [one] }).map(({ kind }) => kind)
    expect(kinds(situation(build, { active: 1 }))).toEqual([])
    expect(kinds(situation(build, { active: 2 }))).toEqual(['MaxReached'])
    expect(kinds(situation(build, { active: 2 }, false))).toEqual([])
    const conditions = [{ type: 'Draining', reason: 'Drained', message: 'drained', since: 1 }] as const
    expect(kinds(situation({ ...build, conditions }, { active: 2 }))).toEqual(['Draining'])
  })

  it('are down also if none should stand by, but not while a server that runs takes further sessions', () => {
    const conditions = [{ type: 'CreateBlocked', reason: 'x', message: 'no node has room', since: 1 }] as const
    const build = { name: 'arena', conditions, spec: { standingBy: 0, max: 9 } }
    const severity = (one: BuildSituation) => listed({ builds: [one] })[0]?.severity
    expect(severity(situation(build))).toBe('down')
    expect(severity(situation(build, { active: 2 }, false))).toBe('degraded')
    expect(listed({ builds: [{ ...situation(build), wanted: 2 }] })[0]?.title).toBe(
      'arena cannot start servers: 0 of 2 ready',
    )
  })

  it('of a drained build are that it is drained, and that it is stopped', () => {
    const draining = { type: 'Draining', reason: 'Drained', message: 'drained', since: 1 } as const
    const problems = listed({ builds: [situation({ ...stopped, conditions: [condition, draining] })] })
    expect(problems.map(({ kind, severity }) => [kind, severity])).toEqual([
      ['Unhealthy', 'drained'],
      ['Draining', 'drained'],
    ])
    const crashing = listed({ builds: [situation({ conditions: [condition, draining] })] })
    expect(crashing.map(({ kind }) => kind)).toEqual(['Draining'])
  })

  it('count reserved servers to those in use', () => {
    const full = { ...situation({ name: 'arena', spec: { standingBy: 1, max: 6 } }, { active: 5 }), inUse: 6 }
    expect(listed({ builds: [full] })).toMatchObject([
      { kind: 'MaxReached', title: 'arena is full: 6 servers in use, max 6' },
    ])
  })

  it('begin with the worst, then go by the names of builds', () => {
    const draining = [{ type: 'Draining', reason: 'Drained', message: 'drained', since: 1 }] as const
    const crashing = (name: string, standingBy: number) =>
      situation({ name, conditions: [condition], spec: { standingBy: 2, max: 9 } }, { standingBy })
    const problems = listed({
      host: ['the store is unavailable: no'],
      builds: [situation({ name: 'a', conditions: draining }), crashing('b', 1), crashing('d', 0), crashing('c', 0)],
    })
    expect(problems.map(({ severity, title }) => [severity, title])).toEqual([
      ['down', 'the store is unavailable: no'],
      ['down', 'c is crashing: 0 of 2 ready'],
      ['down', 'd is crashing: 0 of 2 ready'],
      ['degraded', 'b is crashing: 1 of 2 ready'],
      ['drained', 'a is drained'],
    ])
  })

  it('count the servers of a build that have the same, and name the first', () => {
    const one = situation({ name: 'arena', spec: { standingBy: 2, max: 9 } }, { standingBy: 2 })
    const server = (name: string, more: Partial<Server>) => ({
      server: { ...aServer('StandingBy'), build: 'arena', name, ...more },
    })
    const unhealthy = [server('b', { health: 'Unhealthy' }), server('a', { health: 'Unhealthy' })]
    const ending = server('c', { health: 'Unhealthy', state: 'Terminating' })
    expect(listed({ builds: [one], servers: [...unhealthy, ending] })).toMatchObject([
      { kind: 'ServersUnhealthy', title: '2 servers of arena are Unhealthy', server: { name: 'a' } },
    ])
    const pending = { ...server('p', { state: 'Pending' }), pendingReason: 'no node has room' }
    expect(listed({ builds: [one], servers: [pending] })).toMatchObject([
      { kind: 'ServersPending', title: 'p of arena is not started yet', cause: 'no node has room' },
    ])
  })

  it('do not repeat for servers what the build says', () => {
    const conditions = [{ type: 'CreateBlocked', reason: 'x', message: 'no node has room', since: 1 }] as const
    const one = situation({ name: 'arena', conditions, spec: { standingBy: 2, max: 9 } })
    const pending = {
      server: { ...aServer('Pending'), build: 'arena', name: 'p' },
      pendingReason: 'no node has room',
    }
    expect(listed({ builds: [one], servers: [pending] }).map(({ kind }) => kind)).toEqual(['CreateBlocked'])
  })
})
