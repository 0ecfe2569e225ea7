/** Frozen records for tests of the rules: a rule that modifies its input throws. */
import { fc } from '@fast-check/vitest'
import type { Build, BuildSpec, Server, ServerState } from '../../src/rules/model/resources.js'

/** Freezes a value deeply. */
export function frozen<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value)
    for (const part of Object.values(value)) frozen(part)
  }
  return value
}

/** 2024-01-02T03:04:05.678Z. */
export const createdAt = Date.UTC(2024, 0, 2, 3, 4, 5, 678)

const template = { spec: { containers: [{ name: 'game', image: 'arena:1', command: ['./arena'] }] } }

export function aSpec(changes: Partial<BuildSpec> = {}): BuildSpec {
  return frozen({ buildID: 'b-1', standingBy: 2, max: 10, portsToExpose: [7777], template, ...changes })
}

export function aBuild(changes: Partial<Build> = {}): Build {
  return frozen({
    namespace: 'default',
    name: 'arena',
    uid: 'build-uid',
    createdAt,
    spec: aSpec(),
    crashes: 0,
    countedCrashes: [],
    conditions: [],
    ...changes,
  })
}

const born = {
  namespace: 'default',
  name: 'arena-x7k2p',
  uid: 'server-uid',
  token: '6f1c',
  build: 'arena',
  buildUid: 'build-uid',
  templateHash: '0123456789abcd',
  createdAt,
  sessions: [],
} as const

export const place = frozen({ address: '203.0.113.9', node: 'node-1', ports: [{ container: 7777, public: 10_003 }] })

/** As an allocation asks for it. */
export const session = frozen({
  id: 'A3E5C8C0-0000-4000-8000-0000000000FF',
  cookie: 'map=dust',
  initialPlayers: ['amie'],
})

/** The same as the session of a server. */
export const running = frozen({
  ...session,
  holds: undefined,
  number: 1,
  startedAt: createdAt + 3_000,
  ending: undefined,
})

const initializing = { ...born, ...place, health: 'Unknown', reachedInitializingOn: createdAt + 1_000 } as const
const standingBy = { ...initializing, health: 'Healthy', reachedStandingByOn: createdAt + 2_000 } as const
const active = { ...standingBy, sessions: [running], startedSessions: 1, reachedActiveOn: createdAt + 3_000 } as const
const ending = { reason: 'Deleted', message: 'it was deleted', crash: false, at: createdAt + 4_000 } as const

const servers: Readonly<Record<ServerState, Server>> = frozen({
  Pending: { ...born, state: 'Pending', health: 'Unknown' },
  Initializing: { ...initializing, state: 'Initializing' },
  StandingBy: { ...standingBy, state: 'StandingBy' },
  Active: { ...active, state: 'Active' },
  Terminating: { ...active, state: 'Terminating', ending },
})

/** A typical server in this state. */
export function aServer(state: ServerState, changes: Partial<Server> = {}): Server {
  return frozen({ ...servers[state], ...changes })
}

/** Any JSON value, as parsed; the given keys occur often. */
export function anyJson(...keys: readonly string[]): fc.Arbitrary<unknown> {
  const key = keys.length === 0 ? fc.string() : fc.oneof(fc.constantFrom(...keys), fc.string())
  const { value } = fc.letrec<{ value: unknown }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 4, withCrossShrink: true },
      fc.constantFrom<unknown>(null, true, false, '', 'a', 0, -1, 1, 2, 0.5, 65_535, 65_536),
      fc.string(),
      fc.double({ noNaN: true, noDefaultInfinity: true }),
      fc.array(tie('value'), { maxLength: 4 }),
      fc.dictionary(key, tie('value'), { maxKeys: 6 }),
    ),
  }))
  return value.map((json) => frozen(parsed(JSON.stringify(json))))
}

export function parsed(text: string): unknown {
  return JSON.parse(text)
}

/** `[[[…]]]`: small enough for a request body, too deep for a recursive function. */
export const deepJson: unknown = parsed('['.repeat(100_000) + ']'.repeat(100_000))
