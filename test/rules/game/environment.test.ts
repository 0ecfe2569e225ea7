/** `$(NAME)` in command lines and environments: linear work and a bounded result, whatever the template says. */
import { fc, test } from '@fast-check/vitest'
import { describe, expect, it, vi } from 'vitest'
import {
  declaredEnvironment,
  expandVariables,
  partsOf,
  sdkEnvironment,
  sdkVariables,
} from '../../../src/rules/game/sdk-config.js'
import { sizeLimits, utf8Bytes } from '../../../src/rules/model/sizes.js'
import { gameContainerOf } from '../../../src/rules/validation/pod-template.js'

const sdk = {
  heartbeatEndpoint: 'h:1',
  sessionHostId: 'id',
  buildMetadata: {},
  buildID: 'b',
  node: 'n',
  instanceNumber: 0,
  platform: { titleId: '', region: '', fullyQualifiedDomainName: '' },
  ports: [],
  server: { namespace: 'default', name: 'arena' },
  publicAddress: '127.0.0.1',
  folders: { logs: '/l', dumps: '/l/d', certificates: '/c', sharedContent: '/s' },
}

const environmentOf = (env: readonly object[]) =>
  declaredEnvironment({
    container: gameContainerOf({ spec: { containers: [{ name: 'game', env }] } }),
    sdk,
    sdkConfigPath: '/config.json',
    listening: [],
  })

/** As Kubernetes defines it, in quadratic time. */
function defined(text: string, values: ReadonlyMap<string, string>): string {
  return text.replace(/\$(?:\$|\(([^)]*)\))/g, (whole: string, name: string | undefined) =>
    name === undefined ? '$' : (values.get(name) ?? whole),
  )
}

describe('references', () => {
  const pieces = fc.constantFrom('$', '(', ')', '$(A)', '$(B)', '$(C', '$$', 'a', 'é', ' ')
  const values = new Map([
    ['A', 'one'],
    ['B', '$(A)$$'],
  ])

  test.prop([fc.array(pieces, { maxLength: 12 }).map((all) => all.join(''))])(
    'expand as Kubernetes defines it',
    (text) => {
      expect(expandVariables(text, values)).toBe(defined(text, values))
    },
  )

  test.prop([fc.array(pieces, { maxLength: 12 }).map((all) => all.join(''))])(
    'and literal parts make up the text, with $$ for each $',
    (text) => {
      const written = partsOf(text).map(({ text: part, name }) => (name === undefined ? part : '').replaceAll('$', ''))
      expect(written.join('').length).toBeLessThanOrEqual(text.length)
    },
  )

  it.each([
    ['that are never closed', '$('.repeat(200_000)],
    ['that are closed once', `${'$('.repeat(200_000)})`],
    ['in pairs of dollars', '$$'.repeat(200_000)],
    ['that are empty', '$()'.repeat(130_000)],
    ['that start late', `${'$'.repeat(399_999)}(`],
  ])('%s take a number of searches in proportion to their number', (_, text) => {
    const indexOf = vi.spyOn(String.prototype, 'indexOf')
    partsOf(text)
    const searches = indexOf.mock.calls.map(([what], i) => ({ what, found: indexOf.mock.results[i]?.value as number }))
    indexOf.mockRestore()
    expect(searches.length).toBeLessThanOrEqual(2 * text.length)
    // A search that finds nothing reads the rest of the text.
    expect(searches.filter(({ what, found }) => what === ')' && found < 0).length).toBeLessThanOrEqual(1)
  })
})

describe('an environment whose variables double', () => {
  const doubling = [
    { name: 'A0', value: 'x'.repeat(1_024) },
    ...Array.from({ length: 60 }, (_, i) => ({ name: `A${i + 1}`, value: `$(A${i})$(A${i})` })),
  ]

  it('stays within the size of a value, and keeps the references that do not fit', () => {
    const { declared, expand } = environmentOf(doubling)
    const reference = '$(A59)'
    for (const value of declared.values()) {
      expect(utf8Bytes(value)).toBeLessThanOrEqual(sizeLimits.environmentValueBytes + reference.length)
    }
    const whole = 'x'.repeat(32 * 1_024)
    expect([declared.get('A5'), declared.get('A6'), declared.get('A7')]).toEqual([whole, `${whole}$(A5)`, '$(A6)$(A6)'])
    expect(expand('$(A5)'.repeat(1_000)).length).toBeLessThan(sizeLimits.argumentBytes + 5 * 1_000)
  })
})

describe('the variables of the SDK', () => {
  it('are all known by name', () => {
    expect([...sdkVariables].toSorted()).toEqual([...Object.keys(sdkEnvironment(sdk)), 'GSDK_CONFIG_FILE'].toSorted())
  })
})
