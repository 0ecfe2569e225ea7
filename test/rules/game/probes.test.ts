/** What is known of a game that is probed: tables. */
import { describe, expect, it } from 'vitest'
import {
  afterFailedProbe,
  afterPass,
  emptyEnd,
  expandedCommand,
  type GameSpec,
  isHealthy,
  lastLineOf,
  matchesLine,
  maxLineLength,
  type Probed,
  sessionFile,
  sessionLine,
  unprobed,
} from '../../../src/rules/game/probes.js'

const spec: GameSpec = { readiness: { tcp: {} }, end: { emptySeconds: 60 } }

/** `12`: so many players at 5 s more than before. `-`: no answer. */
function after(course: string): { readonly known: Probed; readonly reason: string | undefined } {
  let known = unprobed
  let hadPlayers = false
  let reason: string | undefined
  let now = 0
  for (const step of course.split(' ')) {
    now += 5_000
    if (step === '-') known = afterFailedProbe(known)
    else {
      known = afterPass(known, { count: Number(step), names: [] }, now)
      hadPlayers ||= Number(step) > 0
    }
    reason ??= emptyEnd(known, hadPlayers, spec)
  }
  return { known, reason }
}

const times = (count: number, step: string) => Array.from({ length: count }, () => step).join(' ')

describe('a session is over', () => {
  it.each([
    ['nobody ever came', times(100, '0'), false],
    ['nobody for 55 s', `3 ${times(12, '0')}`, false],
    ['nobody for 60 s', `3 ${times(13, '0')}`, true],
    ['somebody comes in between', `3 ${times(12, '0')} 1 ${times(12, '0')}`, false],
    ['one answer in three is lost', `3 ${times(7, '0 0 -')}`, true],
    ['no answer at the end', `3 ${times(12, '0')} ${times(100, '-')}`, false],
    ['a long gap begins anew', `3 ${times(10, '0')} ${times(5, '-')} ${times(12, '0')}`, false],
    ['and then ends', `3 ${times(10, '0')} ${times(5, '-')} ${times(13, '0')}`, true],
  ])('%s', (_, course, isOver) => {
    expect(after(course).reason !== undefined).toBe(isOver)
  })
})

describe('a game is healthy', () => {
  it.each([
    ['0 0', true],
    ['0 - -', true],
    ['0 - - -', false],
    ['0 - - 0 - -', true],
    ['- - - 0', true],
  ])('%s', (course, healthy) => expect(isHealthy(after(course).known, spec)).toBe(healthy))

  it('by its own threshold', () => {
    expect(isHealthy(after('-').known, { ...spec, failureThreshold: 1 })).toBe(false)
    expect(isHealthy(after(times(9, '-')).known, { ...spec, failureThreshold: 10 })).toBe(true)
  })
})

describe('players', () => {
  const players = (count: number, names: readonly string[]) => afterPass(unprobed, { count, names }, 0).players

  it.each([
    [2, ['amie', 'ben'], ['amie', 'ben']],
    [3, ['amie'], ['amie', 'unnamed-1', 'unnamed-2']],
    [1, ['amie', 'ben'], ['amie']],
    [0, [], []],
  ])('%i of whom %j are named', (count, names, expected) => expect(players(count, names)).toEqual(expected))

  it('stay known while an answer is lost, and where nothing is asked', () => {
    const known = afterPass(unprobed, { count: 1, names: ['amie'] }, 0)
    expect(afterFailedProbe(known).players).toEqual(['amie'])
    expect(afterPass(afterFailedProbe(known), undefined, 1).players).toEqual(['amie'])
  })
})

describe('a line matches', () => {
  it.each([
    ['Done (12.3s)! For help, type "help"', 'Done (*s)! For help', true],
    ['[12:00:00] [Server thread/INFO]: Done (1s)!', 'Done (*s)!', true],
    ['Done', 'Done (*s)!', false],
    ['b a', 'a*b', false],
    ['a.c', 'a?c', false],
    ['anything', '*', true],
    ['aXbXc', 'a*b*c', true],
    ['ab', 'a**b', true],
  ])('%j by %j: %s', (line, pattern, matches) => expect(matchesLine(line, pattern)).toBe(matches))

  it('in its first characters only, and quickly whatever it is', () => {
    expect(matchesLine(`${'a'.repeat(maxLineLength)}b`, 'b')).toBe(false)
    expect(matchesLine('a'.repeat(1_000_000), `${'a*'.repeat(200)}b`)).toBe(false)
  })
})

describe('the line that tells of a session', () => {
  const session = { id: 's-1', cookie: 'a\nb', initialPlayers: ['amie', 'ben'], number: 1, startedAt: 0 }

  it.each([
    ['match {sessionID}', 'match s-1'],
    ['{players}|{cookie}', 'amie,ben|a b'],
    ['{unknown} {sessionID} {sessionID}', '{unknown} s-1 s-1'],
  ])('%s', (template, line) => expect(sessionLine(template, session)).toBe(line))

  it('does not expand what a value contains', () => {
    expect(sessionLine('{cookie}', { ...session, cookie: '{sessionID} $&' })).toBe('{sessionID} $&')
  })
})

describe('a command', () => {
  it('has the ports and the name of its server in its arguments, as in templates', () => {
    const place = { namespace: 'games', name: 'arena-x2x4q', ports: [{ container: 7777, listening: 10_003 }] }
    const words = [
      '$(PORT_7777)',
      '-n=$(PF_GAMESERVER_NAMESPACE)/$(PF_GAMESERVER_NAME)',
      '$(PORT_1)',
      '$$(PORT_7777)',
      '$HOME',
    ]
    const expanded = ['10003', '-n=games/arena-x2x4q', '$(PORT_1)', '$(PORT_7777)', '$HOME']
    expect(expandedCommand(words, place)).toEqual(expanded)
  })

  it.each([
    ['', ''],
    ['one', 'one'],
    ['one\ntwo\n\n', 'two'],
    ['\u001b[31mfailed\u0000\tfor ever\r\n', '[31mfailed  for ever'],
    [`${'x'.repeat(600)}\n`, `${'x'.repeat(197)}…`],
  ])('that prints %j is shown by its last line', (output, line) => expect(lastLineOf(output)).toBe(line))

  it('that writes the session has it as one line', () => {
    const session = { id: 'match', number: 1, startedAt: 0, initialPlayers: ['a\nb', 'é"$(PORT_1)'] }
    const { command, input } = sessionFile('-x/$HOME', { ...session, cookie: 'c\u2028' }, true)
    expect(command.slice(3)).toEqual(['sh', '-x/$HOME', '077'])
    expect(input).toMatch(/^[^\n]+\n$/)
    const { id: sessionID, initialPlayers } = session
    expect(JSON.parse(input)).toEqual({ sessionID, sessionCookie: 'c\u2028', initialPlayers })
    expect(JSON.parse(sessionFile('x', session, false).input)).toEqual({ sessionID, initialPlayers })
  })
})
