/** Builds whose servers cannot run: the build reports the reason, and creates are limited by the back-off. */
import { randomUUID } from 'node:crypto'
import { expect, it } from 'vitest'
import type { GameServerBuild } from 'gamekeeper'
import { backend, space } from './backend.js'
import { buildOf, createBuild, getBuild } from './client.js'
import { type Host, startHost } from './host.js'
import { portRangeText, type Ports } from './port-ranges.js'
import { until } from './until.js'
import { workplace } from './workplace.js'

const limitMs = 400_000
const noSuchCommand = ['/nowhere/game']
const endsAtOnce = ['sh', '-c', 'exit 3']
const endsAsIfWell = ['sh', '-c', 'echo You need to agree to the EULA; exit 0']

/** Wall times in ms of the creates of a build. */
function creations(host: Host, build: string): readonly number[] {
  return host
    .log()
    .filter(
      (line) => line['event'] === 'ServerCreated' && [build, `${space()}/${build}`].includes(String(line['build'])),
    )
    .map(({ time }) => Date.parse(time))
}

async function brokenFleet(ports: Ports, command: readonly string[], crashesToMarkUnhealthy: number): Promise<Host> {
  const { dataDir } = await workplace()
  const host = await startHost({
    DATA_DIR: dataDir,
    PORT_RANGE: portRangeText(ports),
    SAMPLE: 'off',
    LOG_LEVEL: 'debug',
  })
  const common = { standingBy: 2, max: 4, command }
  await createBuild(host, buildOf({ name: 'limited', buildID: randomUUID(), ...common, crashesToMarkUnhealthy }))
  await createBuild(host, buildOf({ name: 'endless', buildID: randomUUID(), ...common }))
  return host
}

async function untilBuild(host: Host, name: string, is: (build: GameServerBuild) => boolean): Promise<GameServerBuild> {
  return until(`build ${name} is in the expected state`, async () => {
    const build = await getBuild(host, name)
    return is(build) && build
  })
}

it.each([
  {
    what: 'does not exist',
    command: noSuchCommand,
    ports: 'broken-builds-missing' as const,
    code: 'NonZeroExit',
    reason: /exited with code 127: (?:no such command|cannot run)/,
  },
  {
    what: 'exits at once with 3',
    command: endsAtOnce,
    ports: 'broken-builds-crashing' as const,
    code: 'NonZeroExit',
    reason: backend !== 'process' ? /exited with code 3$/ : /exited with code 3: .*\.log/,
  },
  {
    what: 'exits with 0 before it is ready',
    command: endsAsIfWell,
    ports: 'broken-builds-exiting' as const,
    code: 'Exited',
    reason: /exited with code 0 before it was ready/,
    output: 'its last output: You need to agree to the EULA',
  },
])(
  'a build whose command $what reports the reason, is retried with back-off, and is given up',
  { timeout: limitMs },
  async ({ command, ports, code, reason, output = '' }) => {
    const host = await brokenFleet(ports, command, 3)
    const { status } = await untilBuild(host, 'limited', (build) => build.status.health === 'Unhealthy')
    expect(status.crashesCount).toBeGreaterThanOrEqual(3)
    expect(status.conditions).toEqual([
      expect.objectContaining({
        type: 'Crashing',
        status: 'True',
        reason: code,
        message: expect.stringMatching(reason),
      }),
    ])
    expect(status.conditions?.[0]?.message).toContain(output)
    const givenUpAt = creations(host, 'limited').length
    expect(givenUpAt).toBeLessThanOrEqual(4)

    // Two more rounds of the other build take seconds; the build that was given up creates nothing meanwhile.
    const endless = await untilBuild(host, 'endless', (build) => build.status.crashesCount >= 8)
    expect(endless.status.health).toBe('Healthy')
    expect(creations(host, 'limited')).toHaveLength(givenUpAt)
    expect((await getBuild(host, 'limited')).status).toMatchObject({
      crashesCount: givenUpAt,
      currentPending: 0,
      currentInitializing: 0,
    })

    // Rounds of two creates, with back-offs of 1, 2 and 4 s.
    const times = creations(host, 'endless')
    const rounds = times.filter((time, i) => i === 0 || time - (times[i - 1] ?? 0) > 500)
    expect(times.length).toBeLessThanOrEqual(2 * rounds.length)
    const pauses = rounds.slice(1).map((time, i) => time - (rounds[i] ?? 0))
    for (const [i, pause] of pauses.entries()) expect(pause).toBeGreaterThanOrEqual(950 * 2 ** i)

    expect(
      host.log().filter(({ level, cause }) => level === 'warn' && reason.test(String(cause))).length,
    ).toBeGreaterThan(0)
    expect(host.log()).toContainEqual(
      expect.objectContaining({ message: 'build health changed', build: 'limited', health: 'Unhealthy' }),
    )
  },
)
