/** A server's life in phases, and one entry for each thing that happened to it. */
import { expect, it } from 'vitest'
import { happeningsIn, lifeOf } from '../../../src/dashboard/page/data/life.js'
import type { FleetEvent, ServerState } from '../../../src/index.js'

const build = { namespace: 'default', name: 'arena' }
const server = { namespace: 'default', name: 'arena-1' }
const sessionID = 'match-1'
let seq = 0
const base = (seconds: number, message = '') => ({ seq: ++seq, at: seconds * 1_000, message, build, server })
const created = (at: number): FleetEvent => ({ type: 'ServerCreated', ...base(at) })
const went = (at: number, from: ServerState, to: ServerState): FleetEvent => ({
  type: 'ServerStateChanged',
  ...base(at),
  from,
  to,
})
const allocated = (at: number, id = sessionID): FleetEvent => ({
  type: 'Allocated',
  ...base(at),
  sessionID: id,
  waitedMs: 1,
})
const ending = (at: number, message: string, crash = true): FleetEvent => ({
  type: 'ServerEnding',
  ...base(at, message),
  reason: 'NonZeroExit',
  crash,
})
const audited = (at: number, action: 'allocate' | 'deleteServer', id?: string): FleetEvent => ({
  type: 'Audited',
  ...base(at),
  action,
  outcome: 'done',
  caller: { kind: 'token', name: 'matchmaker', address: '10.0.0.7' },
  ...(id !== undefined && { sessionID: id }),
})

const whole = [
  created(0),
  went(4, 'Pending', 'Initializing'),
  went(6, 'Initializing', 'StandingBy'),
  allocated(7),
  audited(7, 'allocate', sessionID),
  went(7, 'StandingBy', 'Active'),
  ending(60, 'arena-1 is terminating: the process exited with code 1'),
  went(60, 'Active', 'Terminating'),
  { type: 'ServerRemoved', ...base(61) } as FleetEvent,
]

const phasesOf = (events: readonly FleetEvent[], now: number) =>
  lifeOf(events, now).phases.map(({ name, from, to }) => `${name} ${(to - from) / 1_000}`)

it('has the time that each phase took, and with what it ended', () => {
  expect(phasesOf(whole, 1_000_000)).toEqual(['starting 6', 'ready 1', 'match 53', 'ending 1'])
  expect(lifeOf(whole, 0)).toMatchObject({ end: 'exit 1', isCrash: true })
})

it('goes on until now, and begins where the log does', () => {
  expect(phasesOf(whole.slice(0, 6), 9_000)).toEqual(['starting 6', 'ready 1', 'match 2'])
  expect(phasesOf(whole.slice(5, 6), 9_000)).toEqual(['ready 0', 'match 2'])
  expect(lifeOf([], 9_000)).toEqual({ phases: [], end: undefined, isCrash: false })
})

it('says how else it ended', () => {
  expect(lifeOf([created(0), ending(1, 'killed by SIGKILL')], 2_000).end).toBe('SIGKILL')
  expect(lifeOf([created(0), ending(1, 'it is gone')], 2_000).end).toBe('non zero exit')
})

it('of many matches shows the last ones, and the time before them as one', () => {
  const reused = Array.from({ length: 20 }, (_, n) => [
    went(2 * n, 'Active', 'StandingBy'),
    went(2 * n + 1, 'StandingBy', 'Active'),
  ]).flat()
  const phases = phasesOf(reused, 40_000)
  expect(phases).toHaveLength(12)
  expect(phases[0]).toMatch(/^before /)
  expect(phases.at(-1)).toBe('match 1')
})

it('tells each thing once, with who asked for it', () => {
  expect(happeningsIn(whole).map(({ event, by }) => [event.type, by])).toEqual([
    ['ServerCreated', undefined],
    ['ServerStateChanged', undefined],
    ['ServerStateChanged', undefined],
    ['Allocated', 'token matchmaker at 10.0.0.7'],
    ['ServerEnding', undefined],
    ['ServerRemoved', undefined],
  ])
})

it('keeps what stands alone: a request without an effect, another session, a change of state long after', () => {
  const alone = [
    audited(0, 'deleteServer'),
    audited(1, 'allocate', 'another'),
    allocated(1),
    went(30, 'StandingBy', 'Active'),
  ]
  expect(happeningsIn(alone)).toHaveLength(4)
})
