import { expect, test } from 'vitest'
import { gameEnvironment } from '../../../adapters/process/run/game-launch.js'
import { expandVariables } from '../../../src/rules/game/sdk-config.js'
import { gameContainerOf } from '../../../src/rules/validation/pod-template.js'

const values = new Map([
  ['A', 'one'],
  ['EMPTY', ''],
  ['LOOP', '$(A)'],
])

test.each([
  ['$(A)', 'one'],
  ['x$(A)y$(A)', 'xoneyone'],
  ['$(EMPTY)', ''],
  ['$(UNSET)', '$(UNSET)'],
  ['$$(A)', '$(A)'],
  ['$$$(A)', '$one'],
  ['$A ${A} $', '$A ${A} $'],
  ['$(A', '$(A'],
  ['$(LOOP)', '$(A)'],
])('%s expands to %s', (text, expanded) => {
  expect(expandVariables(text, values)).toBe(expanded)
})

function environmentOf(
  env: readonly object[],
  host: Readonly<Record<string, string>> = {},
  inheritEnv: readonly string[] = [],
) {
  const container = gameContainerOf({ spec: { containers: [{ name: 'game', env }] } })
  return gameEnvironment({
    host,
    inheritEnv,
    container,
    sdkConfigPath: '/config.json',
    ports: [{ container: 7777, public: 10_003 }],
    sdk: {
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
    },
  })
}

test('games inherit basic and configured host variables, which the template can override', () => {
  const host = {
    PATH: '/bin',
    HOME: '/home',
    DOTNET_ROOT: '/dotnet',
    AWS_SECRET_ACCESS_KEY: 'x',
    NODE_OPTIONS: '--inspect',
  }
  const { env } = environmentOf([{ name: 'HOME', value: '/game' }], host, ['DOTNET_ROOT'])
  expect(env).toMatchObject({ PATH: '/bin', HOME: '/game', DOTNET_ROOT: '/dotnet' })
  expect(env).not.toHaveProperty('AWS_SECRET_ACCESS_KEY')
  expect(env).not.toHaveProperty('NODE_OPTIONS')
})

test('the template cannot override SDK variables, but can set those that the SDK leaves empty', () => {
  const { env, expand } = environmentOf([
    { name: 'SESSION_HOST_ID', value: 'forged' },
    { name: 'PORT_7777', value: '1' },
    { name: 'PF_REGION', value: 'eu' },
    { name: 'URL', value: '$(PUBLIC_IPV4_ADDRESS):$(PORT_7777)' },
    { name: 'EARLY', value: '$(LATE)' },
    { name: 'LATE', value: 'late' },
  ])
  expect(env).toMatchObject({ SESSION_HOST_ID: 'id', PORT_7777: '10003', PF_REGION: 'eu', URL: '127.0.0.1:10003' })
  expect(env).toMatchObject({ GSDK_CONFIG_FILE: '/config.json', EARLY: '$(LATE)' })
  expect(expand('$(PF_REGION)/$(LATE)/$(PATH)')).toBe('eu/late/$(PATH)')
})
