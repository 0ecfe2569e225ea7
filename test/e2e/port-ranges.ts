/**
 * The public ports of each scenario. Scenarios run side by side, and the same one on several backends of one machine, so
 * each has its own ports, below those that the kernel gives to outgoing connections.
 */
import type { PortRange } from '../../src/rules/model/ports.js'
import { backend } from './backend.js'

const firstPort = { process: 20_000, docker: 26_000, kubernetes: 28_000 }[backend]

/** Offsets of each range. No two ranges overlap. */
const ranges = {
  'first-steps': [0, 50],
  'own-fleet': [50, 100],
  burst: [150, 100],
  'host-killed': [250, 100],
  outages: [350, 100],
  endings: [450, 30],
  'gsdk-games-node': [480, 30],
  'gsdk-games': [510, 30],
  deletion: [540, 30],
  'deletion-of-build': [570, 30],
  'session-ids': [600, 30],
  'several-sessions': [630, 30],
  'restored-data': [660, 100],
  'restored-data-later': [760, 30],
  'full-disk': [790, 30],
  refusals: [820, 30],
  'broken-builds-missing': [850, 10],
  'broken-builds-crashing': [860, 10],
  dashboard: [870, 40],
  'broken-builds-exiting': [910, 10],
  'late-starts': [920, 3],
  'leaving-sigterm': [930, 30],
  'leaving-sighup': [960, 30],
  'leaving-ctrl-c': [990, 30],
  'leaving-twice': [1_020, 30],
  'leaving-npm': [1_050, 30],
  'leaving-npm-sigterm': [1_080, 30],
  'leaving-closed-stdout': [1_110, 30],
  'leaving-error': [1_140, 30],
  'leaving-sigint': [1_170, 30],
  'managers-sigint': [1_200, 20],
  'managers-sigterm': [1_220, 20],
  'managers-sigusr2': [1_240, 20],
  'managers-sigkill': [1_260, 20],
  'failing-disk': [1_280, 30],
  'scaling-policies': [1_310, 30],
  'without-sdk': [1_340, 20],
  'without-sdk-lines': [1_360, 20],
  'without-sdk-players': [1_380, 20],
  'without-sdk-recipes': [1_400, 40],
  'without-sdk-commands': [1_440, 20],
  'without-sdk-starts': [1_460, 20],
} as const satisfies Readonly<Record<string, readonly [offset: number, size: number]>>

export type Ports = keyof typeof ranges

export function portRange(name: Ports): PortRange {
  const [offset, size] = ranges[name]
  return { first: firstPort + offset, last: firstPort + offset + size - 1 }
}

/** The value of PORT_RANGE. */
export function portRangeText(name: Ports): string {
  const { first, last } = portRange(name)
  return `${first}-${last}`
}
