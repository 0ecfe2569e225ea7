/** Huge and hostile values in any field of a request or a report: refused with a short message, or within the limits. */
import { fc, test } from '@fast-check/vitest'
import { describe, expect } from 'vitest'
import { declaredEnvironment } from '../../../src/rules/game/sdk-config.js'
import { readHeartbeat } from '../../../src/rules/game/heartbeat.js'
import { keptPlayers, sizeLimits } from '../../../src/rules/model/sizes.js'
import { readBuildInput, readPatch, specFields } from '../../../src/rules/validation/build-schema.js'
import { readAllocationRequest } from '../../../src/rules/validation/allocation-schema.js'
import { gameContainerOf } from '../../../src/rules/validation/pod-template.js'
import { deepJson } from '../support.js'

const template = { spec: { containers: [{ name: 'game', image: 'arena:1' }] } }
const goodSpec = { buildID: 'b-1', standingBy: 2, max: 5, portsToExpose: [7777], template }
const withSpec = (changes: object): object => ({ metadata: { name: 'arena' }, spec: { ...goodSpec, ...changes } })
const circular: Record<string, unknown> = {}
circular['self'] = circular
const sdk = {
  ...{ heartbeatEndpoint: 'h:1', sessionHostId: 'id', buildMetadata: {}, node: 'n', instanceNumber: 0, ports: [] },
  ...{ server: { namespace: 'default', name: 'arena' }, publicAddress: '127.0.0.1' },
  platform: { titleId: '', region: 'north', fullyQualifiedDomainName: '' },
  folders: { logs: '/l', dumps: '/l/d', certificates: '/c', sharedContent: '/s' },
}

/** Texts that are huge, costly to expand, or full of characters that no process or file name can have. */
const hostileText = fc.oneof(
  fc.constantFrom(
    '',
    '\0',
    '\u001b[2J',
    '\u007f',
    '\u0085',
    '\u2028',
    '\ud800',
    '../..',
    '--',
    '-e',
    '$',
    '$(',
    '$$',
    '$(A)',
  ),
  fc
    .tuple(fc.constantFrom('x', 'é', '😀', '\0', '\ud800', '$(', '$()', '$$', '$(A)', '$(PF_REGION)', ')'), fc.nat(18))
    .map(([unit, size]) => unit.repeat(2 ** size)),
)
const hostileNumber = fc.constantFrom(-1, -0, 0.5, 1e9, 2 ** 31, 2 ** 53, -(2 ** 53), 1e308, NaN, Infinity)
const hostileList = fc
  .tuple(hostileText, fc.nat(12))
  .map(([text, size]) => Array<string>(2 ** size).fill(text.slice(0, 100)))
const hostile = fc.oneof(
  hostileText,
  hostileNumber,
  hostileList,
  fc.constantFrom<unknown>(null, true, [], {}, [null], 10n, deepJson, circular),
  fc.tuple(hostileText, hostileText).map(([key, value]) => ({ [key]: value })),
  fc.array(fc.record({ name: hostileText, value: hostileText }), { maxLength: 40 }),
)
const places: Readonly<Record<string, (value: unknown) => object>> = {
  ...Object.fromEntries([...specFields].map((field) => [field, (value) => withSpec({ [field]: value })])),
  ...Object.fromEntries(
    ['name', 'image', 'workingDir', 'command', 'args', 'env', 'ports', 'resources'].map((field) => [
      `container.${field}`,
      (value) => withSpec({ template: { spec: { containers: [{ command: ['$(A)'], [field]: value }] } } }),
    ]),
  ),
  pod: (value) =>
    withSpec({ template: { spec: { ...template.spec, affinity: value, terminationGracePeriodSeconds: value } } }),
  initContainer: (value) =>
    withSpec({ template: { spec: { ...template.spec, initContainers: [{ args: value, env: value }] } } }),
  metadata: (value) => ({ spec: goodSpec, metadata: { name: value, namespace: value } }),
}
const request = { buildID: 'b-1', sessionID: '01234567-89ab-cdef-0123-456789abcdef' }

/** All strings in a value, keys of objects included. */
function stringsIn(value: unknown): readonly string[] {
  if (typeof value === 'string') return [value]
  if (Array.isArray(value)) return value.flatMap(stringsIn)
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, part]) => [key, ...stringsIn(part)])
}
const bytesIn = (value: unknown) => stringsIn(value).reduce((sum, text) => sum + Buffer.byteLength(text), 0)

describe('huge and hostile values', () => {
  test.prop([hostile, fc.constantFrom(...Object.keys(places))], { numRuns: 1_500 })(
    'in a build are refused with a short message, or leave a build within the limits that no process objects to',
    (value, place) => {
      const checked = readBuildInput(places[place]?.(value))
      if (!checked.ok) {
        expect(Buffer.byteLength(`${checked.problem.field} ${checked.problem.message}`)).toBeLessThan(1_000)
        return
      }
      const { buildID, buildMetadata, template } = checked.value.spec
      expect(Buffer.byteLength(JSON.stringify(template))).toBeLessThanOrEqual(sizeLimits.templateBytes)
      expect(bytesIn(buildMetadata)).toBeLessThanOrEqual(sizeLimits.metadataBytes)
      const { declared, expand } = declaredEnvironment({
        ...{ container: gameContainerOf(template), sdkConfigPath: '/config.json', listening: [] },
        sdk: { ...sdk, buildID },
      })
      const { command, args } = gameContainerOf(template)
      const commandLine = [...command, ...args].map(expand)
      expect(bytesIn([...declared])).toBeLessThanOrEqual(sizeLimits.environmentBytes + 10_000)
      expect(bytesIn(commandLine)).toBeLessThanOrEqual(sizeLimits.commandBytes + 10_000)
      expect(stringsIn([[...declared], commandLine]).filter((text) => text.includes('\0'))).toEqual([])
    },
  )

  test.prop([hostile, fc.constantFrom('buildID', 'sessionID', 'sessionCookie', 'initialPlayers', 'other')], {
    numRuns: 500,
  })('in an allocation are refused with a short message, or leave a session within the limits', (value, field) => {
    const checked = readAllocationRequest({ ...request, [field]: value })
    if (!checked.ok) {
      expect(Buffer.byteLength(`${checked.problem.field} ${checked.problem.message}`)).toBeLessThan(1_000)
      return
    }
    const { sessionCookie, initialPlayers } = checked.value
    expect(bytesIn([sessionCookie])).toBeLessThanOrEqual(sizeLimits.sessionCookieBytes + 1)
    expect(bytesIn(initialPlayers ?? [])).toBeLessThanOrEqual(sizeLimits.initialPlayersBytes + 10_000)
  })

  test.prop([hostile, hostileText], { numRuns: 300 })(
    'in a heartbeat or a patch never make reading throw',
    (value, key) => {
      for (const body of [
        value,
        { currentplayers: value },
        { CurrentPlayers: [value, { PlayerId: value }] },
        { [key]: value },
      ]) {
        expect(keptPlayers(readHeartbeat(body).players).length).toBeLessThanOrEqual(sizeLimits.reportedPlayers)
        readPatch(body)
      }
    },
  )
})
