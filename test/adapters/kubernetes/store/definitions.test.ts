import { beforeAll, describe, expect, it } from 'vitest'
import { parseAllDocuments } from 'yaml'
import { pathOf } from '../../../../adapters/kubernetes/client/kube-objects.js'
import {
  type BuildCounts,
  buildStatus,
  type ReadyCondition,
} from '../../../../adapters/kubernetes/store/build-object.js'
import { fleetResources } from '../../../../adapters/kubernetes/store/custom-collection.js'
import {
  detailSpec,
  newServerObject,
  readDetail,
  readServer,
  serverStatus,
} from '../../../../adapters/kubernetes/store/server-object.js'
import { FleetError } from '../../../../src/contracts/errors.js'
import { type Detail, type Server, serverStates, type Session } from '../../../../src/rules/model/resources.js'
import { defaultApiGroup } from '../../../../src/rules/model/wire.js'
import { isObject } from '../../../../src/rules/validation/problem.js'
import { readBuildInput } from '../../../../src/rules/validation/build-schema.js'
import { completeBuild } from '../../../../src/testing/records.js'
import { namespaceName } from '../support/cluster.js'
import { definitionsText } from '../support/definitions.js'
import { describeOnCluster } from '../support/describe-on-cluster.js'
import { openStore } from '../support/fleets.js'
import { ownNamespaces } from '../support/own-namespace.js'

type Json = Readonly<Record<string, unknown>>

const good: Json = {
  buildID: '85ffe8da-c82f-4035-86c5-9d2b5f42d6f6',
  standingBy: 2,
  max: 4,
  portsToExpose: [7777, 7778],
  crashesToMarkUnhealthy: 5,
  health: {
    firstHeartbeatSeconds: 1,
    silenceSeconds: 1,
    lateStartSeconds: 1,
    initializingSeconds: 1,
    sessionSeconds: 1,
    endLongSessions: true,
  },
  buildMetadata: { region: 'north' },
  template: {
    metadata: { labels: { tier: 'gold' } },
    spec: {
      terminationGracePeriodSeconds: 5,
      containers: [
        {
          name: 'game',
          image: 'arena:1',
          workingDir: '/srv',
          command: ['./arena'],
          args: ['--level=7'],
          env: [{ name: 'MODE', value: 'duel' }],
          ports: [{ name: 'game', containerPort: 7777, protocol: 'UDP' }],
          resources: { limits: { cpu: '500m' } },
        },
      ],
    },
  },
}

/** Every path in a valid spec that has a rule. */
const places = [
  'buildID',
  'standingBy',
  'max',
  'portsToExpose',
  'portsToExpose.0',
  'crashesToMarkUnhealthy',
  'health',
  'health.firstHeartbeatSeconds',
  'health.silenceSeconds',
  'health.lateStartSeconds',
  'health.initializingSeconds',
  'health.sessionSeconds',
  'health.endLongSessions',
  'buildMetadata',
  'buildMetadata.region',
  'template',
  'template.spec',
  'template.spec.terminationGracePeriodSeconds',
  'template.spec.containers',
  'template.spec.containers.0',
  'template.spec.containers.0.name',
  'template.spec.containers.0.image',
  'template.spec.containers.0.workingDir',
  'template.spec.containers.0.command',
  'template.spec.containers.0.command.0',
  'template.spec.containers.0.args',
  'template.spec.containers.0.env',
  'template.spec.containers.0.env.0',
  'template.spec.containers.0.env.0.name',
  'template.spec.containers.0.env.0.value',
  'template.spec.containers.0.ports',
  'template.spec.containers.0.ports.0',
  'template.spec.containers.0.ports.0.containerPort',
  'template.spec.containers.0.ports.0.protocol',
  'template.spec.containers.0.ports.0.name',
  'template.spec.containers.0.resources',
  'template.spec.containers.0.resources.limits',
]

const absent = Symbol('absent')
const oddities: readonly unknown[] = [
  absent,
  null,
  'x',
  'a=b',
  'y'.repeat(128),
  'y'.repeat(129),
  0,
  1,
  -1,
  1.5,
  65_535,
  65_536,
  true,
  [],
  ['x'],
  [1],
  [1, 1],
  [1.5],
  {},
  { x: 1 },
]

/** `path = value` that a structural schema cannot reject: the leader sets the condition Invalid, or clamps the value. */
const beyondSchema: ReadonlySet<string> = new Set([
  // standingBy must not be above max.
  'standingBy = 65535',
  'standingBy = 65536',
  'max = 0',
  'max = 1',
  // Nullable, since an API server may store an empty string as null.
  'buildMetadata.region = null',
  'template.spec.containers.0.command.0 = null',
])

const ref = { namespace: 'games', name: 'arena-1' }

/** Stands for every key of a map. */
const anyKey = 'any'

/** Has every field. A new field must be added here, which makes the test check its definition. */
const wholeServer: Required<Omit<Server, 'tokenLost'>> & { readonly sessions: readonly Required<Session>[] } = {
  ...ref,
  ...{ uid: 'u', token: 't', build: 'arena', buildUid: 'b', templateHash: 'h', graceSeconds: 5 },
  createdAt: 1_700_000_000_000,
  ...{ state: 'Terminating', health: 'Unhealthy', address: '203.0.113.7', node: 'node-1' },
  ports: [{ container: 7777, public: 10_003 }],
  ...{ reachedInitializingOn: 1_700_000_001_000, reachedStandingByOn: 1_700_000_002_000 },
  reachedActiveOn: 1_700_000_003_000,
  reservedUntil: 1_700_000_090_000,
  sessions: [
    {
      ...{ id: 'a9b1c2d3-0000-4000-8000-000000000001', cookie: 'mode=duel', initialPlayers: ['amie'] },
      holds: [{ player: 'amie', until: 1_700_000_063_000 }],
      ...{ number: 3, startedAt: 1_700_000_003_500, ending: true, told: true },
    },
    {
      ...{ id: 'room-4', cookie: 'map=dust', initialPlayers: ['bo'] },
      holds: [{ player: 'bo', until: 1_700_000_063_000 }],
      ...{ number: 4, startedAt: 1_700_000_003_600, ending: true, told: true },
    },
  ],
  startedSessions: 4,
  maintenance: { at: 1_700_003_600_000, source: 'node' },
  data: {
    labels: { [anyKey]: 'dust' },
    annotations: { [anyKey]: 'a note' },
    counters: { [anyKey]: { count: 1, capacity: 2 } },
    lists: { [anyKey]: { values: ['amie'], capacity: 2 } },
  },
  ending: { reason: 'NonZeroExit', message: 'it ended', crash: true, at: 1_700_000_004_000, exitCode: 3 },
}
const wholeDetail: Required<Detail> = { ...ref, build: 'arena', players: ['amie'] }
const wholeFigures: Required<Omit<BuildCounts, 'crashesCount' | 'health' | 'conditions' | 'readiness'>> = {
  ...{ currentActive: 1, currentStandingBy: 1, currentPending: 1, currentInitializing: 1 },
  currentStandingByReadyDesired: '1/2',
  rollout: { updated: 1, outdated: 1 },
  scaling: { standingBy: 2, decider: 'buffer', message: 'buffer asks for 2' },
}

const ready: Required<ReadyCondition> = {
  ...{ type: 'Ready', status: 'False', reason: 'Starting', message: '1 of 2' },
  ...{ lastTransitionTime: '2025-01-01T00:00:00.000Z', observedGeneration: 2 },
}

describe('the custom resource definitions', () => {
  it('have the groups and names that the store uses', async () => {
    const documents = parseAllDocuments(await definitionsText()).map((document): unknown => document.toJS())
    const found = documents.map((document) => {
      const spec = at(document, 'spec')
      return { group: at(spec, 'group'), plural: at(spec, 'names.plural'), kind: at(spec, 'names.kind') }
    })
    const { builds, servers, details, demand, allocations, journals } = fleetResources()
    expect(found).toEqual(
      [builds, servers, details, demand, allocations, journals].map(({ group, plural, kind }) => ({
        group,
        plural,
        kind,
      })),
    )
  })

  it('have exactly the fields of a spec that validation allows', async () => {
    const [build] = parseAllDocuments(await definitionsText()).map((document): unknown => document.toJS())
    const spec = at(build, 'spec.versions.0.schema.openAPIV3Schema.properties.spec')
    const fieldsOf = (schema: unknown) => Object.keys(Object(at(schema, 'properties'))).toSorted()
    const knownTo = (input: unknown) => {
      const checked = readBuildInput(input)
      const message = checked.ok ? '' : checked.problem.message
      return (/allowed fields are (.*)/.exec(message)?.[1] ?? '').split(', ').toSorted()
    }
    const metadata = { name: 'arena' }
    // What a caller writes as `run` is stored as template and portsToExpose.
    expect([...fieldsOf(spec), 'run'].toSorted()).toEqual(knownTo({ metadata, spec: { ...good, other: 1 } }))
    expect(fieldsOf(at(spec, 'properties.health'))).toEqual(
      knownTo({ metadata, spec: { ...good, health: { other: 1 } } }),
    )
  })

  it('have exactly the fields that the store writes for builds, servers and details', async () => {
    const [build, server, detail] = await schemas()
    const open = { encrypt: (token: string) => token, decrypt: (token: string) => ({ token }) }
    const made = newServerObject(wholeServer, fleetResources(), open, undefined)
    const written = { spec: at(made, 'spec'), status: { ...serverStatus(wholeServer), writtenUpon: '7' } }
    // A single session has fields of its own, several are in a list.
    const [first] = wholeServer.sessions
    if (!first) throw new Error('no session')
    const startedAt = wholeServer.reachedActiveOn ?? 0
    const only = { ...first, number: 4, startedAt, ending: undefined }
    const simple: Server = { ...wholeServer, sessions: [only] }
    const spec = detailSpec(wholeDetail, '7')
    const appliedMetadata = { labels: { [anyKey]: 'dust' }, annotations: { [anyKey]: 'a note' } }
    for (const [schema, value] of [
      [at(build, 'status'), buildStatus(completeBuild(ref), wholeFigures, { basedOn: '7', home: 'games', ready })],
      [at(server, 'spec'), written.spec],
      [at(server, 'status'), { ...serverStatus(simple), ...written.status, appliedMetadata }],
      [at(detail, 'spec'), spec],
    ] as const) {
      expect(pathsOf(plain(value))).toEqual(placesOf(schema))
    }
    expect(readServer(object(written), open)).toEqual(wholeServer)
    expect(readServer(object({ ...written, status: serverStatus(simple) }), open)).toEqual(simple)
    expect(readDetail(object({ spec }))).toEqual(wholeDetail)
  })

  it('describe every field, for kubectl explain', async () => {
    const documents = parseAllDocuments(await definitionsText()).map((document): unknown => document.toJS())
    const whole = documents.map((document) => at(document, 'spec.versions.0.schema.openAPIV3Schema'))
    expect(whole.map((schema) => typeof at(schema, 'description'))).toEqual(documents.map(() => 'string'))
    // Kubernetes describes the metadata itself, and allows no other description.
    const described = whole.flatMap((schema) => fieldsOf(schema).filter(([path]) => !path.startsWith('metadata')))
    expect(described.length).toBeGreaterThan(80)
    expect(described.filter(([, field]) => !at(field, 'description')).map(([path]) => path)).toEqual([])
  })

  it('list exactly the states of a server', async () => {
    const [, server] = await schemas()
    expect(at(server, 'status.properties.state.enum')).toEqual(serverStates)
  })
})

describeOnCluster('records in custom resources', () => {
  const { api, make } = ownNamespaces()
  const namespace = namespaceName()
  beforeAll(() => make(namespace))

  it('preserve every field for the next host', async () => {
    const store = await openStore(api, namespace)
    const server = { ...wholeServer, namespace }
    await store.servers.create(server)
    await store.details.create({ ...wholeDetail, namespace })
    await store.close()
    const next = await openStore(api, namespace)
    expect((await next.servers.get(server))?.record).toEqual(server)
    expect((await next.details.get(server))?.record).toEqual({ ...wholeDetail, namespace })
    await next.close()
  })
})

describeOnCluster('the API server', () => {
  const { api, make } = ownNamespaces()
  const namespace = namespaceName()
  beforeAll(() => make(namespace))

  const { builds } = fleetResources()

  /** The spec as the API server stores it, without nulls and unknown fields; undefined when it rejects the spec. */
  async function kept(name: string, spec: unknown): Promise<unknown> {
    const body = { apiVersion: `${defaultApiGroup}/v1alpha1`, kind: builds.kind, metadata: { name, namespace }, spec }
    const call = { what: 'try', method: 'POST', path: pathOf(builds, { namespace }), query: { dryRun: 'All' } } as const
    try {
      return (await api.object({ ...call, body }))['spec']
    } catch (error) {
      if (FleetError.is(error, 'invalid')) return undefined
      throw error
    }
  }

  const followsRules = (name: string, spec: unknown) => readBuildInput({ metadata: { name, namespace }, spec }).ok

  it('stores a valid spec unchanged', async () => {
    expect(followsRules('arena', good)).toBe(true)
    expect(await kept('arena', good)).toEqual(good)
  })

  it.each(places)('accepts and rejects the same values for spec.%s as validation', async (place) => {
    const wrong = await Promise.all(
      oddities.map(async (value) => {
        const spec = replaced(good, place.split('.'), value)
        const what = `${place} = ${value === absent ? 'absent' : JSON.stringify(value)}`
        const stored = await kept('arena', spec)
        if (stored === undefined) return followsRules('arena', spec) ? [`${what}: only the API server rejects it`] : []
        const isRight = followsRules('arena', stored)
        if (beyondSchema.has(what)) return isRight ? [`${what}: validation accepts it as well`] : []
        return isRight ? [] : [`${what}: the API server accepts it, and validation rejects what is stored`]
      }),
    )
    expect(wrong.flat()).toEqual([])
  })

  it.each(['a', 'a-b', 'A', 'a.b', '-a', 'a_b', 'a'.repeat(57), 'a'.repeat(58)])(
    'accepts or rejects the name %s exactly as validation does',
    async (name) => {
      expect((await kept(name, good)) !== undefined).toBe(followsRules(name, good))
    },
  )
})

/** The spec and status schemas of builds, servers and details. */
async function schemas(): Promise<readonly unknown[]> {
  const documents = parseAllDocuments(await definitionsText()).map((document): unknown => document.toJS())
  return documents.map((document) => at(document, 'spec.versions.0.schema.openAPIV3Schema.properties'))
}

/** The path of every field of a schema. */
function placesOf(schema: unknown, path = ''): readonly string[] {
  const items = at(schema, 'items')
  if (items !== undefined) return placesOf(items, `${path}[]`)
  const entries = at(schema, 'additionalProperties')
  if (entries !== undefined) return placesOf(entries, `${path}.${anyKey}`)
  const properties = at(schema, 'properties')
  if (!isObject(properties)) return [path]
  return Object.entries(properties)
    .flatMap(([key, inner]) => placesOf(inner, `${path}.${key}`))
    .toSorted((a, b) => a.localeCompare(b))
}

/** The path and schema of every property in a schema, whatever contains it. */
function fieldsOf(schema: unknown, path = ''): readonly (readonly [path: string, schema: unknown])[] {
  const inner = ['items', 'additionalProperties'].flatMap((part) => fieldsIn(at(schema, part), `${path}[]`))
  return [...inner, ...fieldsIn(schema, path)]
}

function fieldsIn(schema: unknown, path: string): readonly (readonly [path: string, schema: unknown])[] {
  return Object.entries(Object(at(schema, 'properties'))).flatMap(([key, field]) => {
    const place = path === '' ? key : `${path}.${key}`
    return [[place, field] as const, ...fieldsOf(field, place)]
  })
}

/** The path of every field of a value. */
function pathsOf(value: unknown, path = ''): readonly string[] {
  if (Array.isArray(value)) return [...new Set(value.flatMap((item) => pathsOf(item, `${path}[]`)))]
  if (!isObject(value)) return [path]
  return Object.entries(value)
    .flatMap(([key, inner]) => pathsOf(inner, `${path}.${key}`))
    .toSorted((a, b) => a.localeCompare(b))
}

function plain(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value))
}

function object(fields: Json): { readonly metadata: typeof ref; readonly [field: string]: unknown } {
  return { ...fields, metadata: ref }
}

function at(value: unknown, path: string): unknown {
  return path.split('.').reduce<unknown>((found, key) => {
    if (Array.isArray(found)) return found[Number(key)]
    return isObject(found) ? found[key] : undefined
  }, value)
}

function replaced(value: unknown, [key, ...rest]: readonly string[], by: unknown): unknown {
  if (key === undefined) return by
  if (Array.isArray(value)) {
    const next = replaced(value[Number(key)], rest, by)
    return value.flatMap((item: unknown, i) => (i !== Number(key) ? [item] : next === absent ? [] : [next]))
  }
  const object = isObject(value) ? value : {}
  const next = replaced(object[key], rest, by)
  return Object.fromEntries(Object.entries({ ...object, [key]: next }).filter(([, entry]) => entry !== absent))
}
