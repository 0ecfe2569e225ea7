/** Which metadata keys are reported because GSDK clients use them for settings of their own. */
import { describe, expect, it } from 'vitest'
import { gsdkSettings, reservedMetadataKeys } from '../../../src/rules/game/metadata-keys.js'
import { frozen } from '../support.js'

const ports = [{ name: 'game', containerPort: 7777 }]

function keysOf(buildMetadata: Readonly<Record<string, string>> | undefined): readonly string[] {
  return reservedMetadataKeys(
    frozen({
      ...(buildMetadata && { buildMetadata }),
      portsToExpose: [7777, 7778],
      template: { spec: { containers: [{ name: 'game', ports }] } },
    }),
  )
}

describe('metadata keys that GSDK clients use themselves', () => {
  it.each(gsdkSettings)('%s, a setting of a client', (key) => {
    expect(keysOf({ map: 'dust', [key]: 'x' })).toEqual([key])
  })

  it.each([
    ['a port’s name in the template', 'game'],
    ['the name of a port without one', 'port_7778'],
    ['a setting in another case', 'sessionid'],
  ])('%s', (_what, key) => {
    expect(keysOf({ [key]: 'x', map: 'dust' })).toEqual([key])
  })

  it.each([
    ['other keys', { map: 'dust', 'game ': '1', port_7777: 'x', regions: 'y' }],
    ['no keys', {}],
    ['no metadata', undefined],
  ])('none of: %s', (_what, buildMetadata) => {
    expect(keysOf(buildMetadata)).toEqual([])
  })
})
