/** `gamekeeper simulate`: the simulated load itself, and the command as a process. */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { BuildSpec } from 'gamekeeper'
import { callersOf, type Load, peakMatches, runLoad, smallestStandingBy } from '../../src/cli/load-simulation.js'
import { inventDemand } from 'gamekeeper/testing'
import type { PlayedOutcome } from '../../src/testing/played-day.js'
import { root } from '../package/sources.js'
import { cli, emptyDirectory, startCli } from './cli.js'

const { signal } = new AbortController()
const load: Load = { allocationsPerMinute: 6, matchSeconds: 120, startSeconds: 15, waitSeconds: 0, hours: 0.5, seed: 1 }
const limits = { standingBy: 3, max: 100 }

function specOf(change: Partial<BuildSpec> = {}): BuildSpec {
  const template = { spec: { containers: [{ name: 'game', image: 'arena' }] } }
  return { buildID: 'a-1', ...limits, portsToExpose: [], template, ...change }
}

function runWith(change: Partial<BuildSpec>, loadChange: Partial<Load> = {}): Promise<PlayedOutcome> {
  const changed = { ...load, ...loadChange }
  return runLoad(specOf(change), changed, callersOf(changed), { signal })
}

describe('callers', () => {
  it('come as often as the load says, at times that the seed determines', () => {
    const callers = callersOf({ ...load, hours: 100 })
    expect(callers).toEqual(callersOf({ ...load, hours: 100 }))
    expect(callersOf({ ...load, seed: 2 })[0]).not.toEqual(callers[0])
    expect(callers.length / 36_000).toBeCloseTo(1, 1)
    expect(callers.reduce((sum, { matchMs }) => sum + matchMs, 0) / callers.length / 120_000).toBeCloseTo(1, 1)
    expect(Math.min(...callers.map(({ matchMs }) => matchMs))).toBeGreaterThanOrEqual(60_000)
    expect(callers.map(({ atMs }) => atMs)).toEqual(callers.map(({ atMs }) => atMs).toSorted((a, b) => a - b))
  })

  it('need as many servers as matches overlap; one that ends makes room for one that begins', () => {
    const at = (atMs: number, matchMs: number) => ({ atMs, matchMs })
    expect(peakMatches([])).toBe(0)
    expect(peakMatches([at(0, 10), at(5, 10), at(10, 10)])).toBe(2)
  })
})

describe('a simulated load', () => {
  it('counts callers, servers and their hours', async () => {
    const callers = callersOf(load)
    const outcome = await runWith({ standingBy: 30 })
    expect(outcome).toMatchObject({ callers: callers.length, served: callers.length, refused: 0 })
    expect(outcome.waitsMs).toEqual(callers.map(() => 0))
    // All matches that begin, but for their parts after the last hour.
    const matchHours =
      callers.reduce((sum, { atMs, matchMs }) => sum + Math.min(matchMs, 1_800_000 - atMs), 0) / 3_600_000
    expect(outcome.activeServerHours).toBeCloseTo(matchHours, 1)
    expect(outcome.idleServerHours).toBeCloseTo(15, 0)
    expect(outcome.peakServers).toBeGreaterThanOrEqual(30 + peakMatches(callers) - 1)
  })

  it('refuses callers when none is standing by or all servers have a match', async () => {
    expect(await runWith({ standingBy: 0 })).toMatchObject({ served: 0, peakServers: 0 })
    const few = await runWith({ standingBy: 2, max: 2 })
    expect(few.refused).toBeGreaterThan(50)
    expect(few.peakServers).toBe(2)
    expect(few.served + few.refused).toBe(few.callers)
  })

  it('lets callers wait: without servers standing by, about as long as a start takes', async () => {
    const { refused, waitsMs } = await runWith({ standingBy: 0 }, { waitSeconds: 60 })
    expect(refused).toBe(0)
    expect(waitsMs.at(-1)).toBeLessThanOrEqual(24_000)
    expect(waitsMs[Math.floor(waitsMs.length / 2)]).toBeGreaterThan(5_000)
  })

  it('counts callers that wait in vain as refused, however many they are', async () => {
    const many = { allocationsPerMinute: 11_000, matchSeconds: 3_600, waitSeconds: 30, hours: 1 / 60 }
    const outcome = await runWith({ standingBy: 0, max: 1 }, many)
    expect(outcome.callers).toBeGreaterThan(10_000)
    expect(outcome).toMatchObject({ served: 1, refused: outcome.callers - 1 })
  })

  it('is the same for the same seed', async () => {
    expect(await runWith({})).toEqual(await runWith({}))
  })

  it.each([0, 30])('of which %i are standing by needs the same smallest number', async (standingBy) => {
    const callers = callersOf(load)
    const known = { standingBy, outcome: await runWith({ standingBy }) }
    const smallest = await smallestStandingBy(specOf(), load, callers, { known, onMinute: () => {}, signal })
    if (smallest === undefined) throw new Error('max does not suffice')
    expect((await runWith({ standingBy: smallest })).refused).toBe(0)
    expect((await runWith({ standingBy: smallest - 1 })).refused).toBeGreaterThan(0)
  })

  it('with a max that is too small cannot be served by any number', async () => {
    const known = { standingBy: 3, outcome: await runWith({ max: 10 }) }
    const options = { known, onMinute: () => {}, signal }
    expect(await smallestStandingBy(specOf({ max: 10 }), load, callersOf(load), options)).toBeUndefined()
  })
})

describe('gamekeeper simulate', () => {
  const build = `metadata: { name: arena }\nspec: { buildID: a-1, standingBy: 1, max: 20, portsToExpose: [7777], template: { spec: { containers: [{ name: a, command: [a], ports: [{ containerPort: 7777 }] }] } } }\n`
  const brief = ['--hours', '0.5', '--match-seconds', '120']

  it('reports on a build in a file, in words and as JSON', async () => {
    const cwd = await emptyDirectory()
    await writeFile(join(cwd, 'build.yaml'), `${build}---\n${build.replaceAll('arena', 'duel')}`)
    const args = ['simulate', 'arena', '-f', 'build.yaml', ...brief]
    const { code, stdout } = await cli([...args, '--json'], { cwd })
    const report = JSON.parse(stdout)
    expect(report).toMatchObject({ build: 'arena', standingBy: 1, max: 20, load: { hours: 0.5, seed: 1 } })
    expect(report.waitSeconds).toEqual({ p50: 0, p95: 0, p99: 0, longest: 0 })
    const words = await cli([...args, '--standing-by', '0'], { cwd })
    expect([code, words.code]).toEqual([0, 0])
    expect(words.stdout).toMatch(/^0.5 h of build arena with standingBy 0 and max 20, seed 1: /)
    expect(words.stdout).toContain(
      `\ncallers       ${report.callers}: 0 served, ${report.callers} refused (100.00 %)\n`,
    )
    expect(words.stdout).toContain(`\nstandingBy ${report.smallestStandingBy} is the smallest that refuses no caller\n`)
    const small = await cli([...args, '--max', '1'], { cwd })
    expect(small.stdout).toContain(
      `not even standingBy 1 serves all callers: max is too small, since ${report.peakMatches}`,
    )
  })

  it.each([
    [[], 2, 'simulate needs a build: its name, --file, or --standing-by and --max'],
    [['-f', '-'], 1, '- has the builds arena, duel: name one of them'],
    [['--standing-by', '3', '--max', '2'], 1, 'spec.standingBy must be'],
    [
      ['--standing-by', '1', '--max', '2', '--hours', '8760', '--allocations-per-minute', '10'],
      1,
      '5256000 callers are',
    ],
    [['--hours', '0'], 2, 'It must be a number from 0.01 to 8760'],
  ])('%j ends with exit code %i and one line', async (args, code, message) => {
    const input = `${build}---\n${build.replaceAll('arena', 'duel')}`
    const result = await cli(['simulate', ...args], { input })
    expect(result).toEqual({ code, stdout: '', stderr: expect.stringContaining(message) })
    expect(result.stderr.trimEnd().split('\n')).toHaveLength(1)
  })

  it('shows progress, and ends on Ctrl-C', { timeout: 300_000 }, async () => {
    const args = ['--standing-by', '9', '--max', '900', '--allocations-per-minute', '100', '--hours', '100']
    const running = startCli(['simulate', ...args])
    await running.untilSaid(/^9 standing by: \d+\.\d of 100 h simulated$/m)
    running.signal('SIGINT')
    expect(await running.exit()).toMatchObject({ code: 130, stdout: '' })
  })
})

describe('gamekeeper simulate of a day', () => {
  const invented = ['--shape', 'evening-peak', '--sessions', '60']

  async function withPolicies() {
    const cwd = await emptyDirectory()
    await writeFile(join(cwd, 'few.json'), '{"standingBy": 0, "max": 50}')
    await writeFile(join(cwd, 'buffer.yaml'), 'max: 50\nscaling: { buffer: { min: 6 } }\n')
    return cwd
  }

  it('compares policies, with a chart, and with the smallest fixed number', async () => {
    const cwd = await withPolicies()
    const args = ['simulate', ...invented, '--policy', 'few.json', '--policy', 'buffer.yaml', '--fixed', '--price', '2']
    const words = await cli(args, { cwd })
    expect(words).toMatchObject({ code: 0 })
    const lines = words.stdout.split('\n')
    expect(lines[0]).toBe('2026-01-30, 60 callers, who do not wait; seed 1')
    expect(lines[2]).toMatch(/^POLICY {8}REFUSED +P50 +P95 +P99 +SERVER-HOURS +IDLE +PEAK +COST$/)
    expect(lines[3]).toMatch(/^few {11}60 \(100.00 %\) +0 s +0 s +0 s +0 +0 % +0 +0.00$/)
    expect(lines[4]).toMatch(/^buffer {8}0 \(0.00 %\) /)
    expect(lines[5]).toMatch(/^standingBy \d+ +0 \(0.00 %\) /)
    expect(words.stdout).toMatch(/^buffer, 00:00 to 24:00 UTC\nservers {2}[▁▂▃▄▅▆▇█ ]{72} up to \d+\nin use {3}/m)
    const json = JSON.parse((await cli([...args, '--json'], { cwd })).stdout)
    expect(json).toMatchObject([
      { policy: 'few', callers: 60, refused: 60, cost: 0 },
      { policy: 'buffer', refused: 0, waitSeconds: { p50: 0 } },
      { policy: expect.stringMatching(/^standingBy \d$/), refused: 0 },
    ])
  })

  it('runs as the guide prints it, with fewer sessions', async () => {
    const cwd = await emptyDirectory()
    const guide = await readFile(join(root, 'docs/guides/scaling.md'), 'utf8')
    const files = [...guide.matchAll(/^echo '(.+)' > (\w+\.json)$/gm)]
    expect(files).toHaveLength(3)
    for (const [, content = '', name = ''] of files) await writeFile(join(cwd, name), content)
    const [line = ''] = /^gamekeeper simulate --shape .+$/m.exec(guide) ?? []
    const args = line.replace('20000', '100').split(' ').slice(1)
    const { code, stdout } = await cli(args, { cwd })
    expect(code).toBe(0)
    for (const policy of ['fixed', 'buffer', 'forecast', 'standingBy \\d+']) {
      expect(stdout).toMatch(new RegExp(`^${policy} +\\d+ \\(\\d+\\.\\d\\d %\\) `, 'm'))
    }
  })

  it('replays a recording for a build as it is', async () => {
    const cwd = await withPolicies()
    const recording = inventDemand({ shape: 'flat', sessions: 30, days: 2 })
    await writeFile(join(cwd, 'recording.json'), JSON.stringify(recording))
    await writeFile(
      join(cwd, 'build.yaml'),
      'metadata: { name: arena }\nspec: { buildID: a-1, standingBy: 5, max: 20, run: { command: [a] } }\n',
    )
    const args = ['simulate', '-f', 'build.yaml', '--from', 'recording.json', '--day', '2026-01-30']
    const { stdout } = await cli(args, { cwd })
    expect(stdout).toMatch(/^2026-01-30, 30 callers, .*\n\n.*\narena +0 \(0.00 %\)/)
    const piped = await cli(['simulate', '-f', 'build.yaml', '--from', '-'], { cwd, input: JSON.stringify(recording) })
    expect(piped.stdout).toContain('arena')
  })

  it.each<[readonly string[], string]>([
    [['--policy', 'few.json'], '--policy needs a day to replay: --from or --shape'],
    [['--from', 'x', '--shape', 'flat'], '--from and --shape exclude each other'],
    [
      ['--from', 'x', '--policy', 'few.json', '--match-seconds', '5'],
      '--match-seconds is of an even load; a recording says',
    ],
    [
      [...invented, '--policy', 'few.json', '--hours', '5'],
      '--hours is of an even load; an invented day says that itself',
    ],
    [['--shape', 'flat', '--policy', 'few.json'], '--shape needs --sessions'],
    [
      ['--from', 'few.json', '--policy', 'few.json'],
      '--from: few.json is no recording, as gamekeeper demand prints it: it must be a recording',
    ],
    [['--from', 'none.json', '--policy', 'few.json'], 'none.json cannot be read'],
    [['--from', 'buffer.yaml', '--policy', 'few.json'], '--from: buffer.yaml is no JSON'],
    [
      [...invented, '--policy', 'typo.json'],
      '--policy: typo.json has a field standigBy, which is none of a policy; did you mean standingBy?',
    ],
    [
      [...invented, '--policy', 'without.json'],
      '--policy: without.json has no max, and there is no build that has one',
    ],
    [[...invented, '--policy', 'bad.json'], 'spec.scaling.buffer.min must be'],
    [invented, 'simulate needs a build: its name, --file, or --standing-by and --max'],
  ])('%j is refused in one line', async (args, message) => {
    const cwd = await withPolicies()
    await writeFile(join(cwd, 'typo.json'), '{"standigBy": 0}')
    await writeFile(join(cwd, 'without.json'), '{"standingBy": 0}')
    await writeFile(join(cwd, 'bad.json'), '{"max": 5, "scaling": {"buffer": {"min": -2}}}')
    const result = await cli(['simulate', ...args], { cwd })
    expect(result).toMatchObject({ stdout: '', stderr: expect.stringContaining(message) })
    expect(result.code).toBeGreaterThan(0)
    expect(result.stderr.trimEnd().split('\n')).toHaveLength(1)
  })
})
