/**
 * `npm run soak -- --abuse`: one bundled server on real processes with live matches, under every abuse at once. No match may
 * end, and no session may be lost or get two servers.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { messageOf } from '../../../src/contracts/errors.js'
import { buildOf } from '../../e2e/client.js'
import { Hosts } from '../host.js'
import { killAllIn, usageOf } from '../machine.js'
import { abortedAllocations, massEndings, pipelinedAllocations } from './abuses/allocations.js'
import { eventReaders, slowRequests, tokenGuesses, wrongSecrets } from './abuses/connections.js'
import { floodingStrangers, forkingGame, hostileHeartbeats } from './abuses/games.js'
import { hostileBuilds, hostilePaths, hugeAllocations } from './abuses/values.js'
import { HeartbeatProbe, type HeartbeatReport } from './heartbeat-probe.js'
import { LiveMatches } from './live-matches.js'
import { type Abuse, liveBuild, preyBuild, send, type Target, tokens } from './target.js'

export interface AbuseOptions {
  /** `rounds`: how often each abuse is made. */
  readonly length: { readonly minutes: number } | { readonly rounds: number }
  readonly matches: number
  /** Default: all. */
  readonly made?: readonly Abuse[]
  readonly signal?: AbortSignal
  readonly onProgress?: (line: string) => void
}

export interface AbuseSummary {
  readonly seconds: number
  /** Number of rounds by abuse. */
  readonly rounds: Readonly<Record<string, number>>
  readonly matches: number
  readonly checks: number
  readonly heartbeats: HeartbeatReport
  readonly mostRssMiB: number
  readonly violations: readonly string[]
  readonly interrupted: boolean
  /** The directory with logs and data, kept after a violation. */
  readonly keptIn: string | undefined
}

/** The host's memory must stay below this. */
export const maxRssMiB = 768
/** Abuses that are made at the same time. */
const atOnce = 3
const checkMs = 2_000
const sampleMs = 500

export const abuses: readonly Abuse[] = [
  ...[pipelinedAllocations, eventReaders, hostileBuilds, wrongSecrets, forkingGame, abortedAllocations, hostilePaths],
  ...[hugeAllocations, tokenGuesses, hostileHeartbeats, slowRequests, massEndings, floodingStrangers],
]

export async function abuseSoak(options: AbuseOptions): Promise<AbuseSummary> {
  if (process.platform !== 'linux') throw new Error('the soak test requires Linux: it reads /proc')
  const root = await mkdtemp(join(tmpdir(), 'gamekeeper-abuse-'))
  const violations: string[] = []
  const violate = (what: string) => void violations.push(what)
  const first = 29_200 + (process.pid % 50) * 40
  const env = {
    ALLOCATE_TOKENS: `keeper:${tokens.keeper},abuser:${tokens.abuser}`,
    MANAGE_TOKENS: `${tokens.keeper},${tokens.abuser}`,
    LOG_LEVEL: 'warn',
    AUDIT: 'off',
  }
  const dataDir = join(root, 'data')
  const portRange = `${first}-${first + 39}`
  const hosts = new Hosts({ root, dataDir, portRange, env, onUnexpectedExit: violate })
  try {
    return await run(options, { root, dataDir, hosts, violations, violate })
  } finally {
    await hosts.stop('SIGTERM')
    killAllIn(dataDir)
    if (violations.length === 0) await rm(root, { recursive: true, force: true })
  }
}

interface Stage {
  readonly root: string
  readonly dataDir: string
  readonly hosts: Hosts
  readonly violations: readonly string[]
  readonly violate: (what: string) => void
}

async function run(
  {
    length,
    matches: wanted,
    made = abuses,
    signal = new AbortController().signal,
    onProgress = () => {},
  }: AbuseOptions,
  { root, dataDir, hosts, violations, violate }: Stage,
): Promise<AbuseSummary> {
  await hosts.start()
  const { apis } = hosts
  if (!apis) throw new Error('the host has no addresses')
  const target: Target = { apis, dataDir, signal, violate }
  await create(target, { ...liveBuild, standingBy: 1, max: wanted })
  await create(target, { ...preyBuild, standingBy: 3, max: 8 })
  const live = new LiveMatches(target)
  for (let i = 0; i < wanted; i++) await live.add()

  const startedAt = performance.now()
  const inProgress = new Set<string>()
  const heartbeats = new HeartbeatProbe(apis.agent, live.sessionHostID(), (ms) =>
    onProgress(`a heartbeat was answered after ${Math.round(ms)} ms, during: ${[...inProgress].join(', ')}`),
  )
  let mostRssMiB = 0
  const sample = () => {
    mostRssMiB = Math.max(mostRssMiB, usageOf(hosts.pid ?? 0)?.rssMiB ?? 0)
  }
  const sampling = setInterval(sample, sampleMs)
  let checking = Promise.resolve()
  const check = () =>
    (checking = checking.then(() => live.check()).catch((error: unknown) => violate(messageOf(error))))
  const checks = setInterval(() => void check(), checkMs)
  let rounds: Readonly<Record<string, number>>
  let report: HeartbeatReport
  try {
    rounds = await makeAll(target, made, { length, onProgress, inProgress })
  } finally {
    clearInterval(checks)
    clearInterval(sampling)
    report = await heartbeats.close()
  }
  sample()
  await check()
  await live.checkRepeated().catch((error: unknown) => violate(messageOf(error)))
  if (mostRssMiB > maxRssMiB)
    violate(`the host used ${Math.round(mostRssMiB)} MiB of memory, more than ${maxRssMiB} MiB`)
  return {
    seconds: Math.round((performance.now() - startedAt) / 1000),
    ...{ rounds, matches: live.count, checks: live.checks },
    heartbeats: report,
    mostRssMiB: Math.round(mostRssMiB),
    violations,
    interrupted: signal.aborted,
    keptIn: violations.length > 0 ? root : undefined,
  }
}

interface Progress extends Required<Pick<AbuseOptions, 'length' | 'onProgress'>> {
  /** Names of the abuses that are being made. */
  readonly inProgress: Set<string>
}

/** Makes the abuses in turn, several at the same time. */
async function makeAll(
  target: Target,
  made: readonly Abuse[],
  { length, onProgress, inProgress }: Progress,
): Promise<Readonly<Record<string, number>>> {
  const end = 'minutes' in length ? performance.now() + length.minutes * 60_000 : Infinity
  const most = 'rounds' in length ? length.rounds * made.length : Infinity
  const rounds: Record<string, number> = {}
  let next = 0
  const worker = async () => {
    while (next < most && performance.now() < end && !target.signal.aborted) {
      const abuse = made[next++ % made.length]
      if (abuse === undefined) return
      const startedAt = performance.now()
      inProgress.add(abuse.name)
      await abuse.run(target).catch((error: unknown) => {
        if (!target.signal.aborted) target.violate(`${abuse.name}: ${messageOf(error)}`)
      })
      inProgress.delete(abuse.name)
      rounds[abuse.name] = (rounds[abuse.name] ?? 0) + 1
      onProgress(`${abuse.name}: ${((performance.now() - startedAt) / 1000).toFixed(1)} s`)
    }
  }
  await Promise.all(Array.from({ length: atOnce }, worker))
  return rounds
}

async function create(target: Target, build: Parameters<typeof buildOf>[0]): Promise<void> {
  const body = JSON.stringify(buildOf({ ...build, crashesToMarkUnhealthy: 1_000_000 }))
  const url = `${target.apis.management}/api/v1/gameserverbuilds`
  const { status, text } = await send(target, 'POST', url, { token: tokens.keeper, body })
  if (status !== 200) throw new Error(`build ${build.name} was answered with ${status}: ${text}`)
}
