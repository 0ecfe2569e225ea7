/** Heartbeats as the seven GSDK clients send them, and malformed ones. */
import { test } from '@fast-check/vitest'
import { describe, expect, it } from 'vitest'
import { gameStates, type Heartbeat, parkTimeMs, readHeartbeat } from '../../../src/rules/game/heartbeat.js'
import { anyJson, deepJson, frozen, parsed } from '../support.js'

const read = (body: unknown) => readHeartbeat(frozen(body))

describe('the heartbeat of', () => {
  it.each<[string, string, Heartbeat]>([
    [
      'the protocol',
      '{"CurrentGameState":"StandingBy","CurrentGameHealth":"Healthy","CurrentPlayers":[{"PlayerId":"amie"}]}',
      { state: 'StandingBy', health: 'Healthy', players: ['amie'] },
    ],
    [
      'Java: keys in lower camel case',
      '{"currentGameState":"Active","currentGameHealth":"Healthy","currentPlayers":[{"playerId":"amie"}]}',
      { state: 'Active', health: 'Healthy', players: ['amie'] },
    ],
    [
      'Unity: playerId',
      '{"CurrentGameState":"Active","CurrentGameHealth":"Healthy","CurrentPlayers":[{"playerId":"amie"},{"playerId":"bo"}]}',
      { state: 'Active', health: 'Healthy', players: ['amie', 'bo'] },
    ],
    [
      'Go without a health callback or players',
      '{"CurrentGameState":"Initializing","CurrentGameHealth":"Unhealthy","CurrentPlayers":null}',
      { state: 'Initializing', health: 'Unhealthy', players: [] },
    ],
    [
      'a game that does not report its health',
      '{"CurrentGameState":"StandingBy","CurrentGameHealth":"","CurrentPlayers":[]}',
      { state: 'StandingBy', players: [] },
    ],
    ['a game that only reports its state', '{"CurrentGameState":"StandingBy"}', { state: 'StandingBy', players: [] }],
    [
      'a game with additional fields',
      '{"CurrentGameState":"Active","CurrentPlayers":[{"PlayerId":"amie","Name":"Amie"}],"IsShort":true}',
      { state: 'Active', players: ['amie'] },
    ],
  ])('%s', (_client, body, heartbeat) => {
    expect(read(parsed(body))).toStrictEqual(heartbeat)
  })
})

describe('the state', () => {
  it.each(gameStates)('is read as %s regardless of case', (state) => {
    expect(read({ CurrentGameState: state }).state).toBe(state)
    expect(read({ CURRENTGAMESTATE: state.toUpperCase() }).state).toBe(state)
    expect(read({ currentgamestate: state.toLowerCase() }).state).toBe(state)
  })

  it.each<[string, unknown]>([
    ['an unknown word', 'Sleeping'],
    ['an empty string', ''],
    ['a number', 2],
    ['null', null],
    ['an array that converts to a state', ['Active']],
    ['an object that cannot be converted to a string', { toString: null, valueOf: null }],
    ['a very deep array', deepJson],
  ])('is Invalid for %s', (_what, state) => {
    expect(readHeartbeat({ CurrentGameState: state })).toStrictEqual({ state: 'Invalid', players: [] })
  })
})

describe('the health', () => {
  it.each([
    ['Healthy', 'Healthy'],
    ['healthy', 'Healthy'],
    ['Unhealthy', 'Unhealthy'],
    ['UNHEALTHY', 'Unhealthy'],
  ])('%s is read as %s', (said, health) => {
    expect(read({ CurrentGameHealth: said }).health).toBe(health)
  })

  it.each<[string, unknown]>([
    ['an empty string', ''],
    ['null', null],
    ['an unknown word', 'fine'],
    ['a boolean', true],
    ['an object that cannot be converted to a string', { toString: null }],
  ])('is absent for %s', (_what, said) => {
    expect(read({ CurrentGameState: 'Active', CurrentGameHealth: said })).toStrictEqual({
      state: 'Active',
      players: [],
    })
  })
})

describe('the players', () => {
  it.each<[string, unknown, readonly string[]]>([
    ['absent', undefined, []],
    ['null', null, []],
    ['are empty for an empty list', [], []],
    ['keep their order and duplicates', [{ PlayerId: 'b' }, { PlayerId: 'a' }, { PlayerId: 'b' }], ['b', 'a', 'b']],
    ['may be plain strings', ['amie', 'bo'], ['amie', 'bo']],
    ['are read from a list with other values', [null, 7, {}, [], { PlayerId: 7 }, { playerid: 'amie' }], ['amie']],
    ['may contain any character', [{ PlayerId: 'ámïe,?\u{1F600}' }], ['ámïe,?\u{1F600}']],
    ['are empty for an object', { PlayerId: 'amie' }, []],
    ['are empty for a string', 'amie', []],
  ])('%s', (_what, said, players) => {
    expect(read({ CurrentPlayers: said }).players).toEqual(players)
  })
})

describe('malformed bodies', () => {
  it.each<[string, unknown]>([
    ['nothing', undefined],
    ['null', null],
    ['a string', 'Active'],
    ['a number', 1],
    ['an array', [{ CurrentGameState: 'Active' }]],
    ['an empty object', {}],
    ['a very deep array', deepJson],
  ])('count as a heartbeat in state Invalid: %s', (_what, body) => {
    expect(readHeartbeat(body)).toStrictEqual({ state: 'Invalid', players: [] })
  })

  it('cannot pollute a prototype', () => {
    expect(read(parsed('{"__proto__":{"CurrentGameState":"Active"},"constructor":1}')).state).toBe('Invalid')
    expect(read(parsed('{"CurrentPlayers":[{"__proto__":{"PlayerId":"x"}}]}')).players).toEqual([])
  })

  const keys = [
    'CurrentGameState',
    'currentGameHealth',
    'CURRENTPLAYERS',
    'playerId',
    'toString',
    'valueOf',
    '__proto__',
  ]
  test.prop([anyJson(...keys)])('of any shape never throw', (body) => {
    const { state, health, players } = readHeartbeat(body)
    expect(gameStates).toContain(state)
    expect([undefined, 'Healthy', 'Unhealthy']).toContain(health)
    expect(players.every((player) => typeof player === 'string')).toBe(true)
  })
})

describe('the answer to a heartbeat may be held', () => {
  it.each([
    [0, false, 0],
    [0, true, 250],
    [100, true, 250],
    [700, false, 700],
    [700, true, 700],
    [60_000, false, 1_000],
    [Number.POSITIVE_INFINITY, true, Number.POSITIVE_INFINITY],
  ])('if the game prefers to wait %s ms and "being allocated" is %s: for %s ms', (waitMs, isBeingAllocated, ms) => {
    expect(parkTimeMs(waitMs, 1_000, isBeingAllocated)).toBe(ms)
  })
})
