/** What is known of crashes: groups by cause, and from when on they are known. */
import { describe, expect, it } from 'vitest'
import { crashesKnown, crashGroups, unknownBefore } from '../../../src/dashboard/page/data/crashes.js'
import type { ActivityCrash } from '../../../src/contracts/observer.js'

const minuteMs = 60_000
const build = { namespace: 'default', name: 'season-two' }
const crash = (
  server: string,
  at: number,
  output?: string,
  cause = 'the process exited with code 3',
): ActivityCrash => ({
  ...{ at, build, server: { namespace: 'default', name: server }, reason: 'NonZeroExit' },
  message: `${server} is terminating: ${cause}`,
  ...(output !== undefined && { output }),
})

describe('groups', () => {
  const summary = (...crashes: readonly ActivityCrash[]) =>
    crashGroups(crashes).map(({ title, detail, crashes: all }) => `${all.length} × ${title}: ${detail}`)

  it('crashes with the same cause are one group, whatever the name of the server, its ports and its times', () => {
    expect(
      summary(
        crash('s-a1', 9, 'loading map | 2026-01-02T03:04:05.678Z Error: ENOENT canyon.nav (s-a1, port 7001)'),
        crash('s-b2', 8, 'loading map | 2026-01-02T03:04:06.901Z Error: ENOENT canyon.nav (s-b2, port 7002)'),
        crash('s-c3', 7, 'fatal: out of memory', 'the process exited with code 134'),
      ),
    ).toEqual(['2 × exit 3: Error: ENOENT canyon.nav (…, port 7001)', '1 × exit 134: fatal: out of memory'])
  })

  it('different last words are different groups, the newest first', () => {
    expect(summary(crash('s-b', 9, 'no licence'), crash('s-a', 8, 'no map'), crash('s-c', 7, 'no licence'))).toEqual([
      '2 × exit 3: no licence',
      '1 × exit 3: no map',
    ])
  })

  it('those whose output is not known belong to the newest group with their cause', () => {
    const words = 'Error: ENOENT canyon.nav'
    expect(summary(crash('s-c', 9), crash('s-b', 8, words), crash('s-a', 7))).toEqual([`3 × exit 3: ${words}`])
    expect(summary(crash('s-c', 9), crash('s-a', 7))).toEqual(['2 × exit 3: undefined'])
  })

  it('the frames of a stack and the version of Node.js are not the last words', () => {
    const output = "Error: Cannot find module 'x' |     at Module._load (node:internal) | } | Node.js v22.1.0"
    expect(summary(crash('s-a', 9, output))).toEqual(["1 × exit 3: Error: Cannot find module 'x'"])
  })

  it('crashes of different builds are different groups', () => {
    const other = { ...crash('s-b', 8, 'no map'), build: { namespace: 'default', name: 'other' } }
    expect(summary(crash('s-a', 9, 'no map'), other)).toHaveLength(2)
  })

  it('the path of a log on the host is not a part of the cause', () => {
    const cause = 'the process exited with code 3: see /var/lib/gamekeeper/logs/default.s-a.log'
    expect(summary(crash('s-a', 9, 'no map', cause))).toEqual(['1 × exit 3: no map'])
  })

  it('a cause that is no exit is told as the fleet tells it', () => {
    expect(summary(crash('s-a', 9, undefined, 'no heartbeat for 30 s'))).toEqual([
      '1 × no heartbeat for 30 s: undefined',
    ])
  })
})

describe('after a restart of the host', () => {
  const now = 100 * minuteMs
  const since = 95 * minuteMs
  const createdAt = (at: number) => [{ metadata: { ...build, creationTimestamp: new Date(at).toISOString() } }]

  it('what precedes its records is unknown, unless there was no build yet', () => {
    expect(unknownBefore({ since }, createdAt(0), now)).toBe(since)
    expect(unknownBefore({ since }, createdAt(96 * minuteMs), now)).toBeUndefined()
    expect(unknownBefore({ since: 30 * minuteMs }, createdAt(0), now)).toBeUndefined()
    expect(unknownBefore(undefined, createdAt(0), now)).toBeUndefined()
  })

  it('the kept crashes of the last hour count, and older ones do not', () => {
    const crashes = [crash('s-c', 96 * minuteMs), crash('s-b', 90 * minuteMs), crash('s-a', 20 * minuteMs)]
    const minutes = [{ at: 96 * minuteMs, crashes: 1 }]
    const totals = { sessions: 0, serverHours: 0 }
    const activity = { since, totals, minutes: minutes as never, crashes }
    expect(crashesKnown(activity, minutes, now)).toBe(2)
    expect(crashesKnown({ ...activity, minutes: [] }, minutes, now)).toBe(2)
    expect(crashesKnown(undefined, minutes, now)).toBe(1)
  })
})
