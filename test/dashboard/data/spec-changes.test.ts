/** What a changed spec does, hunk by hunk, and what a rolling change waits for. */
import { describe, expect, it } from 'vitest'
import { effectsOf, rolloutWaitsFor, specHunks } from '../../../src/dashboard/page/data/spec-changes.js'
import type { BuildSpec } from '../../../src/rules/model/resources.js'
import type { GameServerBuild } from '../../../src/rules/model/wire.js'

const templateOf = (...command: readonly string[]) => ({ spec: { containers: [{ name: 'game', command }] } })
const spec: BuildSpec = {
  buildID: 'arena-1.0',
  standingBy: 6,
  max: 30,
  portsToExpose: [7_777],
  crashesToMarkUnhealthy: 10,
  template: templateOf('game'),
}
const status: GameServerBuild['status'] = {
  currentActive: 0,
  currentStandingBy: 0,
  crashesCount: 0,
  currentPending: 0,
  currentInitializing: 0,
  health: 'Healthy',
  currentStandingByReadyDesired: '0/6',
}
const counts = { Pending: 0, Initializing: 0, StandingBy: 6, Active: 17, Terminating: 0 }
const condition = (type: string, message: string) => ({
  ...{ type, status: 'True' as const, reason: '', message, lastTransitionTime: '' },
})

describe('hunks', () => {
  it('are the lines near a change, with their place and the fields that they change', () => {
    const hunks = specHunks(spec, { ...spec, standingBy: 9, template: templateOf('game', '--new') }, 1)
    expect(
      hunks.map(({ line, fields, lines }) => ({ line, fields, lines: lines.map((one) => one.text.trim()) })),
    ).toEqual([
      {
        line: 2,
        fields: ['standingBy'],
        lines: ['"buildID": "arena-1.0",', '"standingBy": 6,', '"standingBy": 9,', '"max": 30,'],
      },
      { line: 14, fields: ['template'], lines: ['"command": [', '"game"', '"game",', '"--new"', ']'] },
    ])
    expect(specHunks(spec, spec)).toEqual([])
  })

  it('name a field that is added or removed, and not the one whose comma moves', () => {
    expect(specHunks(spec, { ...spec, seatsPerSession: 8 }).map(({ fields }) => fields)).toEqual([['seatsPerSession']])
    const { crashesToMarkUnhealthy: _, ...without } = spec
    expect(specHunks(spec, without).map(({ fields }) => fields)).toEqual([['crashesToMarkUnhealthy']])
  })
})

describe('effects', () => {
  const effects = (change: Partial<BuildSpec>, of: Partial<GameServerBuild['status']> = {}, servers = counts) => {
    const after = { ...spec, ...change }
    return effectsOf(Object.keys(change), { spec, status: { ...status, ...of } }, after, servers)
  }
  const template = templateOf('game', '--new')

  it.each<readonly [string, readonly string[]]>([
    ['of a template', effects({ template })],
    ['of ports', effects({ portsToExpose: [7_778] })],
    ['of a template and metadata', effects({ template, buildMetadata: { region: 'eu' } })],
  ])('%s: replaces idle servers now, and those with a match after it', (_, all) => {
    expect(all).toEqual(['Replaces 6 idle servers now, a few at a time, and 17 after their match.'])
  })

  it('of a template that changes nothing: none', () => {
    expect(effects({ template: templateOf('game') })).toEqual([])
  })

  it('of a template while another change is under way: an upper bound', () => {
    expect(effects({ template }, { rollout: { updated: 3, outdated: 20 } })).toEqual([
      'Replaces up to 6 idle servers now, a few at a time, and up to 17 after their match.',
    ])
  })

  it('of a template of a build without servers, or one that is stopped: says when', () => {
    expect(effects({ template }, {}, { ...counts, StandingBy: 0, Active: 0 })).toEqual([
      'Applies to servers that are started from now on.',
    ])
    expect(effects({ template }, { health: 'Unhealthy', crashesCount: 12 })[0]).toContain(
      'Replaces 6 idle servers once it starts servers again (the build is stopped after 12 crashes',
    )
  })

  it('of standingBy and max: replaces none', () => {
    expect(effects({ standingBy: 9 })).toEqual(['Starts 3 servers. Matches go on in any case.'])
    expect(effects({ standingBy: 9, max: 24 })).toEqual([
      'Starts 1 server, not 3: max is 24, and 17 are in use. Matches go on in any case.',
    ])
  })

  it('of the crash limit: stops or starts the build', () => {
    expect(effects({ crashesToMarkUnhealthy: 20 }, { health: 'Unhealthy', crashesCount: 12 })).toEqual([
      'The build starts servers again.',
    ])
    expect(effects({ crashesToMarkUnhealthy: 2 }, { crashesCount: 3 })).toEqual([
      'Stops the build at once: it has had 3 crashes already. Matches go on.',
    ])
    expect(effects({ crashesToMarkUnhealthy: 20 })).toEqual(['Applies to further crashes. Replaces no server.'])
  })

  it('of the rest: replaces none', () => {
    expect(effects({ seatsPerSession: 8, claimSeconds: 30 })).toEqual(['Applies at once. Replaces no server.'])
  })
})

describe('a rolling change', () => {
  const waits = (outdated: number, servers = counts, of: Partial<GameServerBuild['status']> = {}) =>
    rolloutWaitsFor({ spec, status: { ...status, rollout: { updated: 3, outdated }, ...of } }, servers)

  it('waits for servers that are starting, for idle ones to be replaced, and for matches', () => {
    expect(waits(20, { ...counts, StandingBy: 5, Initializing: 2 })).toBe(
      'It waits until 2 servers that are starting are ready. 3 idle servers of the version before are replaced next, a few at a time. It waits for the end of the match on up to 17 servers.',
    )
    expect(waits(17)).toBe('It waits for the end of the match on 17 servers.')
    expect(waits(1)).toBe('It waits for the end of the match on 1 server.')
  })

  it('does not go on while the build starts no servers, or new ones crash', () => {
    expect(waits(17, counts, { health: 'Unhealthy', crashesCount: 12 })).toBe(
      'It does not go on: the build is stopped after 12 crashes (crashesToMarkUnhealthy is 10).',
    )
    expect(waits(17, counts, { conditions: [condition('Crashing', 'arena-a: exit 3')] })).toContain(
      'New servers do not become ready (Crashing): arena-a: exit 3.',
    )
  })
})
