/** The options with which every backend tells games where they run. */
import { describe, expect, it } from 'vitest'
import { dockerBackend } from '../../../adapters/docker/index.js'
import { kubernetesBackend } from '../../../adapters/kubernetes/index.js'
import { processBackend } from '../../../adapters/process/index.js'
import { platformOn, type PlatformOptions } from '../../../adapters/shared/option-reader.js'

const backends: readonly (readonly [string, (options: object) => unknown])[] = [
  ['processBackend', (options) => processBackend(options)],
  ['dockerBackend', (options) => dockerBackend(options)],
  ['kubernetesBackend', (options) => kubernetesBackend(options)],
]

describe.each(backends)('%s', (name, make) => {
  it.each([
    [{ titleId: '' }, 'titleId must be a non-empty string, but is ""'],
    [{ region: 7 }, 'region must be a non-empty string, but is 7'],
    [{ fullyQualifiedDomainName: 'https://example.com' }, 'fullyQualifiedDomainName must be a DNS name such as'],
    [{ fullyQualifiedDomainName: 'example.com:80' }, 'fullyQualifiedDomainName must be a DNS name such as'],
    [{ fullyQualifiedDomainName: '203.0.113.9' }, 'fullyQualifiedDomainName must be a DNS name such as'],
    [{ fullyQualifiedDomainName: '{host}.example.com' }, 'fullyQualifiedDomainName must be a DNS name such as'],
    [{ fullyQualifiedDomainName: '' }, 'fullyQualifiedDomainName must be a DNS name such as'],
  ])('rejects %j, naming the option', (options, message) => {
    expect(() => make(options)).toThrow(`${name}: ${message}`)
  })
})

const reported = { region: 'eu-1', fullyQualifiedDomainName: 'ec2.example' }

it.each<[string, PlatformOptions, typeof reported | undefined, object]>([
  ['nothing', {}, undefined, { titleId: '', region: '', fullyQualifiedDomainName: '' }],
  ['what the node reports', {}, reported, { titleId: '', ...reported }],
  [
    'options rather than what the node reports',
    { titleId: 'A1', region: 'eu', fullyQualifiedDomainName: '{node}.game.example' },
    reported,
    { titleId: 'A1', region: 'eu', fullyQualifiedDomainName: 'node-1.game.example' },
  ],
])('a server gets %s', (_title, options, defaults, expected) => {
  expect(platformOn('node-1', options, defaults)).toEqual(expected)
})
