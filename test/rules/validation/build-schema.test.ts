/** Validation of builds, patches and allocation requests. */
import { fc, test } from '@fast-check/vitest'
import { describe, expect, it, vi } from 'vitest'
import {
  type BuildInput,
  checkBounds,
  checkForBackend,
  defaultNamespace,
  readBuildInput,
  readPatch,
} from '../../../src/rules/validation/build-schema.js'
import { readAllocationRequest } from '../../../src/rules/validation/allocation-schema.js'
import type { Checked } from '../../../src/rules/validation/problem.js'
import { anyJson, aSpec, deepJson, frozen, parsed } from '../support.js'

const template = { spec: { containers: [{ name: 'game', image: 'arena:1' }] } }
const goodSpec = { buildID: 'b-1', standingBy: 2, max: 5, portsToExpose: [7777], template }
const goodBuild = frozen({ metadata: { name: 'arena', namespace: 'eu' }, spec: goodSpec })

const withSpec = (changes: object): object => frozen({ ...goodBuild, spec: { ...goodSpec, ...changes } })
const without = (field: keyof typeof goodSpec): object => withSpec({ [field]: undefined })
const circular: Record<string, unknown> = {}
circular['self'] = circular

/** An object with this many levels. */
const nested = (levels: number): object => (levels === 1 ? {} : { a: nested(levels - 1) })

const refused = (field: string, message: string) => ({ ok: false, problem: { field, message } })
/** The refusal without what its message says about other fields, and without hints. */
const firstOf = (checked: Checked<unknown>): unknown => {
  if (checked.ok) return checked
  const { field, message } = checked.problem
  return refused(field, message.split(/; (?:also|for a file of Thundernetes)/)[0] ?? '')
}
const accepted = (value: unknown) => ({ ok: true, value })

describe('a valid build', () => {
  it('is read unchanged', () => {
    expect(readBuildInput(goodBuild)).toStrictEqual(accepted(goodBuild))
  })

  it('may have every optional field', () => {
    const body = withSpec({ crashesToMarkUnhealthy: 1, buildMetadata: { map: 'dust', odd: 'a,b?c=d é\n', empty: '' } })
    expect(readBuildInput(body)).toStrictEqual(accepted(body))
  })

  it('gets the namespace "default" if it has none', () => {
    expect(defaultNamespace).toBe('default')
    const metadata = { name: 'arena', namespace: 'default' }
    expect(readBuildInput({ metadata: { name: 'arena' }, spec: goodSpec })).toStrictEqual(
      accepted({ metadata, spec: goodSpec }),
    )
  })

  it('may have a status and other fields outside its spec, which are ignored', () => {
    const { metadata, spec } = goodBuild
    const body = frozen({
      apiVersion: 'mps.vendor.com/v1alpha1',
      kind: 'GameServerBuild',
      metadata: { ...metadata, labels: { a: 'b' }, uid: 'x' },
      spec,
      status: { currentActive: 'many' },
      more: 1,
    })
    expect(readBuildInput(body)).toStrictEqual(accepted(goodBuild))
  })

  it('is read without the limits that are undefined', () => {
    const health = { sessionSeconds: 60, silenceSeconds: undefined, endLongSessions: undefined }
    const spec = { ...goodSpec, health: { sessionSeconds: 60 } }
    expect(readBuildInput(withSpec({ health }))).toStrictEqual(accepted({ ...goodBuild, spec }))
  })

  it('may expose every port: checking for duplicates takes linear time', () => {
    const ports = Array.from({ length: 65_535 }, (_, i) => i + 1)
    const indexOf = vi.spyOn(Array.prototype, 'indexOf')
    const read = readBuildInput(withSpec({ portsToExpose: ports }))
    const searches = indexOf.mock.calls.length
    indexOf.mockRestore()
    expect(read).toMatchObject({ ok: true })
    expect(searches).toBe(0)
  })

  it('is copied, so later changes to the body have no effect', () => {
    const author = structuredClone({ ...goodBuild, spec: { ...goodSpec, buildMetadata: { map: 'dust' } } })
    const before = structuredClone(author)
    const read = readBuildInput(author)
    author.spec.portsToExpose.push(1)
    author.spec.buildMetadata.map = 'other'
    author.spec.template.spec.containers[0] = { name: 'other', image: 'other' }
    expect(read).toStrictEqual(accepted(before))
  })
})

describe('a build is accepted with', () => {
  it.each<[string, object]>([
    ['a name of 57 characters', { ...goodBuild, metadata: { name: 'a'.repeat(57), namespace: 'n'.repeat(63) } }],
    ['a buildID of one character', withSpec({ buildID: ' ' })],
    ['a buildID of 128 characters', withSpec({ buildID: 'é/,?'.repeat(32) })],
    ['standingBy 0', withSpec({ standingBy: 0 })],
    ['max 0', withSpec({ standingBy: 0, max: 0 })],
    ['standingBy = max', withSpec({ standingBy: 5, max: 5 })],
    ['very large numbers', withSpec({ standingBy: 100_000, max: Number.MAX_SAFE_INTEGER })],
    ['no ports', withSpec({ portsToExpose: [] })],
    ['the lowest and the highest port', withSpec({ portsToExpose: [65_535, 1] })],
    ['crashesToMarkUnhealthy 1', withSpec({ crashesToMarkUnhealthy: 1 })],
    ['no limits of its own', withSpec({ health: {} })],
    [
      'every limit of its own',
      withSpec({
        health: {
          ...{ firstHeartbeatSeconds: 1, silenceSeconds: 2, lateStartSeconds: 5 },
          ...{ initializingSeconds: 3, sessionSeconds: 4 },
          endLongSessions: true,
        },
      }),
    ],
    ['empty buildMetadata', withSpec({ buildMetadata: {} })],
  ])('%s', (_what, body) => {
    expect(readBuildInput(frozen(body))).toMatchObject({ ok: true, value: body })
  })
})

const labelRule = (most: number) =>
  `must be an RFC 1123 label of 1 to ${most} lowercase letters, digits and inner dashes, but`
const count = 'must be an integer ≥ 0, but is'
const port = 'must be an integer from 1 to 65535, but is'

describe('a build is rejected for', () => {
  it.each<[string, unknown, string, string]>([
    ['no body', undefined, 'body', 'must be a GameServerBuild object, but is absent'],
    ['null', null, 'body', 'must be a GameServerBuild object, but is null'],
    ['an array', [], 'body', 'must be a GameServerBuild object, but is []'],
    ['a string', 'arena', 'body', 'must be a GameServerBuild object, but is "arena"'],
    ['no metadata', { spec: goodSpec }, 'metadata', 'must be an object with a name, but is absent'],
    ['metadata of another type', { metadata: 'x' }, 'metadata', 'must be an object with a name, but is "x"'],
    ['no name', { metadata: {} }, 'metadata.name', `${labelRule(57)} is absent`],
    ['a name of another type', { metadata: { name: 7 } }, 'metadata.name', `${labelRule(57)} is 7`],
    ['an empty name', { metadata: { name: '' } }, 'metadata.name', `${labelRule(57)} is ""`],
    ['a name that is not a label', { metadata: { name: 'Arena_1' } }, 'metadata.name', `${labelRule(57)} is "Arena_1"`],
    [
      'a name of 57 characters that is not a label',
      { metadata: { name: '-'.repeat(57) } },
      'metadata.name',
      `${labelRule(57)} is "${'-'.repeat(57)}"`,
    ],
    [
      'a name of 58 characters',
      { metadata: { name: 'a'.repeat(58) } },
      'metadata.name',
      `${labelRule(57)} has 58 characters`,
    ],
    [
      'a namespace that is not a label',
      { metadata: { name: 'a', namespace: 'E U' } },
      'metadata.namespace',
      `${labelRule(63)} is "E U"`,
    ],
    [
      'a namespace of 64 characters',
      { metadata: { name: 'a', namespace: 'n'.repeat(64) } },
      'metadata.namespace',
      `${labelRule(63)} has 64 characters`,
    ],
    [
      'a namespace null',
      { metadata: { name: 'a', namespace: null } },
      'metadata.namespace',
      `${labelRule(63)} is null`,
    ],
    ['no spec', { metadata: { name: 'a' } }, 'spec', 'must be an object, but is absent'],
    ['a spec of another type', { metadata: { name: 'a' }, spec: [1] }, 'spec', 'must be an object, but is [1]'],
    [
      'an unknown field in spec',
      withSpec({ standingby: 3 }),
      'spec.standingby',
      'is not allowed; did you mean standingBy?',
    ],
    ['no buildID', without('buildID'), 'spec.buildID', 'must be a string of 1 to 128 characters, but is absent'],
    [
      'an empty buildID',
      withSpec({ buildID: '' }),
      'spec.buildID',
      'must be a string of 1 to 128 characters, but is ""',
    ],
    [
      'a buildID of another type',
      withSpec({ buildID: 1 }),
      'spec.buildID',
      'must be a string of 1 to 128 characters, but is 1',
    ],
    [
      'a buildID of 129 characters',
      withSpec({ buildID: 'x'.repeat(129) }),
      'spec.buildID',
      'must be a string of 1 to 128 characters, but has 129 characters',
    ],
    ...(['standingBy', 'max'] as const).flatMap((field): [string, unknown, string, string][] => [
      [`no ${field}`, without(field), `spec.${field}`, `${count} absent`],
      [`${field} -1`, withSpec({ [field]: -1 }), `spec.${field}`, `${count} -1`],
      [`${field} 1.5`, withSpec({ [field]: 1.5 }), `spec.${field}`, `${count} 1.5`],
      [`${field} "2"`, withSpec({ [field]: '2' }), `spec.${field}`, `${count} "2"`],
      [`${field} null`, withSpec({ [field]: null }), `spec.${field}`, `${count} null`],
      [`${field} true`, withSpec({ [field]: true }), `spec.${field}`, `${count} true`],
      [`${field} [2]`, withSpec({ [field]: [2] }), `spec.${field}`, `${count} [2]`],
      [`${field} NaN`, withSpec({ [field]: NaN }), `spec.${field}`, `${count} NaN`],
      [`${field} 2n`, withSpec({ [field]: 2n }), `spec.${field}`, `${count} 2`],
      [`${field} too large to count`, withSpec({ [field]: 2 ** 53 }), `spec.${field}`, `${count} 9007199254740992`],
    ]),
    [
      'standingBy above max',
      withSpec({ standingBy: 6, max: 5 }),
      'spec.standingBy',
      'must be at most spec.max, but standingBy is 6 and max is 5',
    ],
    ['no ports', without('portsToExpose'), 'spec.portsToExpose', 'must be an array of ports, but is absent'],
    [
      'ports of another type',
      withSpec({ portsToExpose: 7777 }),
      'spec.portsToExpose',
      'must be an array of ports, but is 7777',
    ],
    ['port 0', withSpec({ portsToExpose: [0] }), 'spec.portsToExpose[0]', `${port} 0`],
    ['port 65536', withSpec({ portsToExpose: [1, 65_536] }), 'spec.portsToExpose[1]', `${port} 65536`],
    ['a fraction of a port', withSpec({ portsToExpose: [80.5] }), 'spec.portsToExpose[0]', `${port} 80.5`],
    ['a port as a string', withSpec({ portsToExpose: ['7777'] }), 'spec.portsToExpose[0]', `${port} "7777"`],
    ['a port null', withSpec({ portsToExpose: [null] }), 'spec.portsToExpose[0]', `${port} null`],
    [
      'a port twice',
      withSpec({ portsToExpose: [1, 7777, 7777] }),
      'spec.portsToExpose[2]',
      'must not repeat a value, but 7777 is listed twice',
    ],
    ...[0, -1, 1.5, '3', null, true].map((limit): [string, unknown, string, string] => [
      `crashesToMarkUnhealthy ${JSON.stringify(limit)}`,
      withSpec({ crashesToMarkUnhealthy: limit }),
      'spec.crashesToMarkUnhealthy',
      `must be an integer ≥ 1, but is ${JSON.stringify(limit)}`,
    ]),
    ...['x', [], null, 5].map((health): [string, unknown, string, string] => [
      `health ${JSON.stringify(health)}`,
      withSpec({ health }),
      'spec.health',
      `must be an object of limits, but is ${JSON.stringify(health)}`,
    ]),
    [
      'an unknown limit',
      withSpec({ health: { silenceMs: 5 } }),
      'spec.health.silenceMs',
      'is not allowed; allowed fields are firstHeartbeatSeconds, silenceSeconds, lateStartSeconds, initializingSeconds, sessionSeconds, endLongSessions',
    ],
    ...['firstHeartbeatSeconds', 'silenceSeconds', 'lateStartSeconds', 'initializingSeconds', 'sessionSeconds'].flatMap(
      (limit) =>
        [0, -1, 1.5, '60', null].map((value): [string, unknown, string, string] => [
          `${limit} ${JSON.stringify(value)}`,
          withSpec({ health: { [limit]: value } }),
          `spec.health.${limit}`,
          `must be an integer ≥ 1, in seconds, but is ${JSON.stringify(value)}`,
        ]),
    ),
    [
      'endLongSessions of another type',
      withSpec({ health: { sessionSeconds: 60, endLongSessions: 'yes' } }),
      'spec.health.endLongSessions',
      'must be true or false, but is "yes"',
    ],
    [
      'endLongSessions without sessionSeconds',
      withSpec({ health: { endLongSessions: true } }),
      'spec.health.endLongSessions',
      'has no effect without sessionSeconds, which is absent',
    ],
    ['no template', without('template'), 'spec.template', 'must be a PodTemplateSpec object, but is absent'],
    [
      'a template that no backend could run',
      withSpec({ template: { spec: { containers: [] } } }),
      'spec.template.spec.containers',
      'must be an array of at least one container, but is []',
    ],
    [
      'buildMetadata null',
      withSpec({ buildMetadata: null }),
      'spec.buildMetadata',
      'must be an object of strings, but is null',
    ],
    [
      'buildMetadata []',
      withSpec({ buildMetadata: [] }),
      'spec.buildMetadata',
      'must be an object of strings, but is []',
    ],
    [
      'buildMetadata of numbers',
      withSpec({ buildMetadata: { a: 'x', players: 8 } }),
      'spec.buildMetadata.players',
      'must be a string, but is 8',
    ],
  ])('%s', (_what, body, field, message) => {
    expect(firstOf(readBuildInput(frozen(body)))).toStrictEqual(refused(field, message))
  })

  it.each<[string, object]>([
    ['with a circular reference', { a: circular }],
    ['with a bigint', { a: 5n }],
    ['too deep to serialize', { a: deepJson }],
    ['of 65 levels', nested(64)],
  ])('a template %s', (_what, metadata) => {
    expect(readBuildInput({ ...goodBuild, spec: { ...goodSpec, template: { ...template, metadata } } })).toMatchObject(
      refused('spec.template', 'must be plain JSON, at most 64 levels deep, without circular references or bigint'),
    )
  })

  it('nothing in a template nested 64 levels deep', () => {
    const body = withSpec({ template: { ...template, metadata: nested(63) } })
    expect(readBuildInput(body)).toStrictEqual(accepted(body))
  })

  it('fields that are inherited through __proto__', () => {
    const body = parsed('{"metadata":{"name":"a"},"spec":{"__proto__":{"buildID":"b"},"standingBy":0,"max":0}}')
    expect(readBuildInput(body)).toMatchObject({ ok: false, problem: { field: 'spec.__proto__' } })
  })
})

describe('a build with several mistakes', () => {
  it('is refused with all of them', () => {
    const wrong = withSpec({
      ...{ titel: 'x', standingBy: -1, max: '5', portsToExpose: [7777, 0, 70_000] },
      template: { spec: { containers: [{ name: 'game', ports: [{ name: 'game' }] }] } },
    })
    const { problem } = { problem: undefined, ...readBuildInput(wrong) }
    const text = `${problem?.field} ${problem?.message}`
    for (const part of [
      'spec.titel is not allowed',
      '; also spec.standingBy must be an integer ≥ 0, but is -1',
      '; also spec.max must be an integer ≥ 0, but is "5"',
      '; also spec.portsToExpose[1] must be an integer from 1 to 65535, but is 0',
      '; also spec.portsToExpose[2] must be an integer from 1 to 65535, but is 70000',
      '; also spec.template.spec.containers[0].ports[0].containerPort must be',
    ]) {
      expect(text).toContain(part)
    }
    const beyondSchema = withSpec({ standingBy: 9, counters: { rooms: { count: 2, capacity: 1 } } })
    expect(readBuildInput(beyondSchema)).toMatchObject({
      problem: {
        field: 'spec.standingBy',
        message: expect.stringContaining('; also spec.counters.rooms.count must be'),
      },
    })
    const notForProcesses = {
      ...goodBuild,
      spec: { ...goodSpec, template: { spec: { ...template.spec, volumes: [{ name: 'a' }], hostIPC: true } } },
    }
    expect(checkForBackend(notForProcesses, 'process', true)).toMatchObject({
      problem: { message: expect.stringMatching(/; also spec.template.spec.hostIPC .*; also .*command is required/) },
    })
  })

  it('names ten of very many, and says that there are more', () => {
    const many = Object.fromEntries(Array.from({ length: 10_000 }, (_, i) => [`field${i}`, i]))
    const { problem } = { problem: undefined, ...readBuildInput(withSpec(many)) }
    expect(problem?.message.split('; also ')).toHaveLength(10)
    expect(problem?.message).toMatch(/; and more$/)
  })

  it.each([{ titleID: '1E03' }, { buildMetadata: [{ key: 'map', value: 'dust' }] }])(
    'of Thundernetes names the option and the page: %j',
    (changes) => {
      expect(readBuildInput(withSpec(changes))).toMatchObject({
        problem: { message: expect.stringMatching(/COMPAT=thundernetes, or see docs\/guides\/migrating\.md$/) },
      })
    },
  )
})

describe('checkForBackend', () => {
  it('names the template field that the backend does not support', () => {
    expect(checkForBackend({ spec: aSpec({ template }) }, 'process', true)).toMatchObject({
      ok: false,
      problem: { field: 'spec.template.spec.containers[0].command' },
    })
    expect(checkForBackend({ spec: aSpec({ template }) }, 'container', true)).toStrictEqual(accepted({ skipped: [] }))
    expect(checkForBackend({ spec: aSpec({ template }) }, 'pod', true)).toStrictEqual(accepted({ skipped: [] }))
  })
})

describe('a patch', () => {
  it.each([{ standingBy: 0 }, { max: 0 }, { standingBy: 3, max: 7 }, { standingBy: 9, max: 1 }])(
    'may be %j; its bounds are checked against the build',
    (body) => {
      expect(readPatch(frozen(body))).toStrictEqual(accepted(body))
    },
  )

  it('may have one of its fields undefined', () => {
    expect(readPatch({ standingBy: undefined, max: 3 })).toStrictEqual(accepted({ max: 3 }))
  })

  it.each<[string, unknown, string, string]>([
    ['neither limit', {}, 'body', 'must set at least one of standingBy, max'],
    ['nothing', undefined, 'body', 'must be an object with standingBy, max or both, but is absent'],
    ['an array', [1], 'body', 'must be an object with standingBy, max or both, but is [1]'],
    [
      'another key',
      { max: 3, portsToExpose: [] },
      'portsToExpose',
      'is not allowed; allowed fields are standingBy, max',
    ],
    ['a spec', { spec: { max: 3 } }, 'spec', 'is not allowed; allowed fields are standingBy, max'],
    ['a key without a name', { '': 1 }, '""', 'is not allowed; allowed fields are standingBy, max'],
    ['a status', { status: {} }, 'status', 'is not allowed; allowed fields are standingBy, max'],
    ...(['standingBy', 'max'] as const).flatMap((field): [string, unknown, string, string][] => [
      [`${field} -1`, { [field]: -1 }, field, `${count} -1`],
      [`${field} 0.5`, { [field]: 0.5 }, field, `${count} 0.5`],
      [`${field} "3"`, { [field]: '3' }, field, `${count} "3"`],
      [`${field} null`, { [field]: null }, field, `${count} null`],
    ]),
  ])('is refused for %s', (_what, body, field, message) => {
    expect(firstOf(readPatch(frozen(body)))).toStrictEqual(refused(field, message))
  })

  it('must keep standingBy ≤ max; the error names both fields', () => {
    expect(checkBounds(3, 3, '')).toBeUndefined()
    expect(checkBounds(0, 0, '')).toBeUndefined()
    expect(checkBounds(4, 3, '')).toStrictEqual(
      refused('standingBy', 'must be at most max, but standingBy is 4 and max is 3'),
    )
  })
})

describe('an allocation request', () => {
  const sessionID = '01234567-89ab-cdef-0123-456789abcdef'
  const good = frozen({ buildID: 'b-1', sessionID })

  it.each<[string, object]>([
    ['required fields only', good],
    ['every field', { ...good, sessionCookie: 'map=dust é', initialPlayers: ['amie', 'bo', 'amie'] }],
    ['an empty cookie and no players', { ...good, sessionCookie: '', initialPlayers: [] }],
    ['a GUID in upper case', { ...good, sessionID: sessionID.toUpperCase() }],
    [
      'selectors and changes',
      {
        sessionID,
        select: [
          {
            builds: ['a', 'b'],
            matchLabels: { map: 'dust' },
            matchExpressions: [{ key: 'mode', operator: 'NotIn', values: ['ranked'] }],
            counters: { rooms: { minCount: 0, minAvailable: 2 } },
            lists: { seats: { contains: 'amie', minAvailable: 1 } },
          },
        ],
        labels: { map: 'dust', mode: null },
        annotations: { host: 'amie' },
        counters: { rooms: { increment: 1 } },
        lists: { seats: { add: ['bo'] } },
      },
    ],
    ['the empty GUID', { ...good, sessionID: '00000000-0000-0000-0000-000000000000' }],
    ['a buildID that no build can have', { ...good, buildID: 'x'.repeat(500) }],
  ])('with %s is read unchanged', (_what, body) => {
    expect(readAllocationRequest(frozen(body))).toStrictEqual(accepted(body))
  })

  it('may have null for what it does not set, as serializers of C# and Go write it', () => {
    const sent = {
      buildID: 'b-1',
      sessionID: 'match-1',
      sessionCookie: null,
      initialPlayers: null,
      select: null,
      labels: null,
    }
    expect(readAllocationRequest(sent)).toStrictEqual(accepted({ buildID: 'b-1', sessionID: 'match-1' }))
    expect(readAllocationRequest({ ...sent, sessionID: null })).toMatchObject({
      ok: false,
      problem: { field: 'sessionID' },
    })
  })

  it.each([
    [{ BuildId: 'b-1', sessionID: 'match-1' }, 'BuildId', 'must be written buildID: the case of letters matters'],
    [{ buildID: 'b-1', SessionId: 'match-1' }, 'SessionId', 'must be written sessionID: the case of letters matters'],
  ])('with a field in another case is refused, and the answer names it: %j', (body, field, message) => {
    expect(readAllocationRequest(body)).toEqual(refused(field, message))
  })

  const allowed =
    'buildID, select, server, order, sessionID, sessionCookie, initialPlayers, labels, annotations, counters, lists'

  it.each<[string, object, string]>([
    ['players', { ...good, players: ['amie'] }, 'is not allowed; did you mean initialPlayers?'],
    ['cookie', { ...good, sessionCookie: 'a', cookie: 'b' }, 'is not allowed; did you mean sessionCookie?'],
    ['initialPlayer', { ...good, initialPlayer: ['amie'] }, 'is not allowed; did you mean initialPlayers?'],
    ['region', { ...good, region: 'eu' }, `is not allowed; allowed fields are ${allowed}`],
    ['region', { ...good, region: undefined }, `is not allowed; allowed fields are ${allowed}`],
  ])('is refused for the unknown field %s, and the problem names the closest one', (field, body, message) => {
    expect(readAllocationRequest(frozen(body))).toStrictEqual(refused(field, message))
  })

  it.each<[string, object, string]>([
    ['server.namesapce', { name: 'arena-1', namesapce: 'eu' }, 'is not allowed; did you mean namespace?'],
    [
      'server.sessionCookie',
      { name: 'arena-1', sessionCookie: 'x' },
      'is not allowed; allowed fields are name, namespace, creationTimestamp, labels, annotations',
    ],
  ])('is refused for the unknown field %s of the server that it names', (field, server, message) => {
    expect(readAllocationRequest(frozen({ sessionID, server }))).toStrictEqual(refused(field, message))
  })

  it('may name a server by its metadata, which have more fields', () => {
    const server = {
      ...{ name: 'arena-1', namespace: 'default', creationTimestamp: '2025-01-01T12:00:00.000Z' },
      ...{ labels: { map: 'dust' }, annotations: { note: '' } },
    }
    expect(readAllocationRequest(frozen({ sessionID, server }))).toStrictEqual(accepted({ sessionID, server }))
  })

  it('may have a field that is undefined', () => {
    expect(readAllocationRequest({ ...good, sessionCookie: undefined, select: undefined })).toStrictEqual(
      accepted(good),
    )
  })

  it('is copied, so later changes to the body have no effect', () => {
    const initialPlayers = ['amie']
    const read = readAllocationRequest({ ...good, initialPlayers })
    initialPlayers.push('bo')
    expect(read).toStrictEqual(accepted({ ...good, initialPlayers: ['amie'] }))
  })

  it.each<[string, unknown, string, string]>([
    ['nothing', undefined, 'body', 'must be an allocation request object, but is absent'],
    ['a string', sessionID, 'body', `must be an allocation request object, but is "${sessionID}"`],
    ['neither buildID nor select', { sessionID }, 'body', 'must have buildID, or select, or server'],
    ['an empty buildID', { ...good, buildID: '' }, 'buildID', 'must be a non-empty string, but is ""'],
    ['a buildID of another type', { ...good, buildID: 7 }, 'buildID', 'must be a non-empty string, but is 7'],
    ['no sessionID', { buildID: 'b' }, 'sessionID', 'must be a string of 1 to 128 visible characters, but is absent'],
    [
      'a sessionID of another type',
      { ...good, sessionID: 7 },
      'sessionID',
      'must be a string of 1 to 128 visible characters, but is 7',
    ],
    ['a cookie of another type', { ...good, sessionCookie: {} }, 'sessionCookie', 'must be a string, but is {}'],
    [
      'one player as a string',
      { ...good, initialPlayers: 'amie' },
      'initialPlayers',
      'must be an array of strings, but is "amie"',
    ],
    [
      'a player of another type',
      { ...good, initialPlayers: ['amie', 7] },
      'initialPlayers[1]',
      'must be a string, but is 7',
    ],
    [
      'both buildID and select',
      { ...good, select: [{ builds: ['b'] }] },
      'select',
      'is not allowed beside buildID; set buildID, or select, or server',
    ],
    ['no selector', { sessionID, select: [] }, 'select', 'must be an array of at least one selector, but is []'],
    [
      'a selector without builds',
      { sessionID, select: [{ builds: ['b'] }, {}] },
      'select[1]',
      'must name builds: set builds, or buildLabels to at least one label',
    ],
    [
      'a selector with no build labels',
      { sessionID, select: [{ buildLabels: {} }] },
      'select[0]',
      'must name builds: set builds, or buildLabels to at least one label',
    ],
    [
      'an unknown condition',
      { sessionID, select: [{ builds: ['b'], matchLabel: {} }] },
      'select[0].matchLabel',
      'is not allowed; did you mean matchLabels?',
    ],
    [
      'In without values',
      { sessionID, select: [{ builds: ['b'], matchExpressions: [{ key: 'map', operator: 'In' }] }] },
      'select[0].matchExpressions[0].values',
      'must be set for the operator In',
    ],
    [
      'Exists with values',
      { sessionID, select: [{ builds: ['b'], matchExpressions: [{ key: 'map', operator: 'Exists', values: ['a'] }] }] },
      'select[0].matchExpressions[0].values',
      'is not allowed for the operator Exists',
    ],
    [
      'an unknown operator',
      { sessionID, select: [{ builds: ['b'], matchExpressions: [{ key: 'map', operator: 'Gt' }] }] },
      'select[0].matchExpressions[0].operator',
      'must be one of In, NotIn, Exists, DoesNotExist, but is "Gt"',
    ],
    [
      'too many selectors',
      { sessionID, select: Array.from({ length: 9 }, () => ({ builds: ['b'] })) },
      'select',
      'must have at most 8 items, but has 9',
    ],
    [
      'too many conditions',
      { sessionID, select: [{ builds: ['b'], matchLabels: manyLabels(17) }] },
      'select[0].matchLabels',
      'must have at most 16 entries, but has 17',
    ],
    [
      'two changes of a counter',
      { ...good, counters: { rooms: { increment: 1, count: 2 } } },
      'counters.rooms.count',
      'is not allowed beside increment',
    ],
  ])('is refused for %s', (_what, body, field, message) => {
    expect(readAllocationRequest(frozen(body))).toStrictEqual(refused(field, message))
  })

  test.prop([fc.uuid(), fc.string({ minLength: 1 }), fc.option(fc.string()), fc.option(fc.array(fc.string()))])(
    'is read unchanged if it is valid',
    (id, buildID, cookie, players) => {
      const body = frozen({
        buildID,
        sessionID: id,
        ...(cookie !== null && { sessionCookie: cookie }),
        ...(players !== null && { initialPlayers: players }),
      })
      expect(readAllocationRequest(body)).toStrictEqual(accepted(body))
    },
  )
})

const manyLabels = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`l${i}`, 'x']))

const label = fc.stringMatching(/^[a-z0-9]([-a-z0-9]{0,10}[a-z0-9])?$/)
const validBuild: fc.Arbitrary<BuildInput> = fc
  .record({
    metadata: fc.record({ name: label, namespace: label }),
    counts: fc.tuple(fc.nat(), fc.nat()),
    buildID: fc.string({ minLength: 1, maxLength: 128 }),
    portsToExpose: fc.uniqueArray(fc.integer({ min: 1, max: 65_535 })),
    extra: fc.record(
      { crashesToMarkUnhealthy: fc.integer({ min: 1 }), buildMetadata: fc.dictionary(fc.string(), fc.string()) },
      { requiredKeys: [] },
    ),
    labels: fc.dictionary(fc.string(), fc.string()),
  })
  .map(({ metadata, counts: [a, b], buildID, portsToExpose, extra, labels }) => ({
    metadata,
    spec: {
      ...{ buildID, standingBy: Math.min(a, b), max: Math.max(a, b), portsToExpose },
      template: { metadata: { labels }, ...template },
      ...extra,
    },
  }))

/** Keys of all three requests, so that random bodies get past the first checks. */
const keys = [
  ...['metadata', 'name', 'namespace', 'spec', 'buildID', 'standingBy', 'max', 'portsToExpose', 'template'],
  ...['buildMetadata', 'containers', 'env', 'ports', 'command', 'sessionID', 'initialPlayers', '__proto__', 'toString'],
]

describe('any request', () => {
  test.prop([validBuild])('is read unchanged if it is a valid build', (build) => {
    const body: unknown = frozen(parsed(JSON.stringify(build)))
    expect(readBuildInput(body)).toEqual(accepted(body))
  })

  test.prop([anyJson(...keys)])('is accepted, or rejected with a field and a message; reading never throws', (body) => {
    for (const read of [readBuildInput, readPatch, readAllocationRequest]) {
      const checked = read(body)
      if (!checked.ok) expect(checked.problem.field.length * checked.problem.message.length).toBeGreaterThan(0)
    }
  })

  test.prop([anyJson(...keys), fc.constantFrom(...keys)])(
    'is accepted unchanged or refused, with any value in any field of a build',
    (value, field) => {
      for (const body of [withSpec({ [field]: value }), withSpec({ template: { spec: { containers: [value] } } })]) {
        const checked = readBuildInput(body)
        if (checked.ok) expect(checked.value).toEqual(body)
      }
    },
  )

  it('is rejected if it is nested too deeply to serialize', () => {
    expect(readBuildInput(deepJson).ok).toBe(false)
    expect(readBuildInput({ metadata: deepJson }).ok).toBe(false)
    expect(readPatch({ max: deepJson }).ok).toBe(false)
    expect(readAllocationRequest({ buildID: 'b', sessionID: deepJson }).ok).toBe(false)
  })
})
