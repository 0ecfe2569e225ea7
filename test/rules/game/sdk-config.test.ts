/** The configuration file and the environment of the GSDK. */
import { describe, expect, it } from 'vitest'
import { portName, sdkConfigFile, type SdkConfigInput, sdkEnvironment } from '../../../src/rules/game/sdk-config.js'
import { type GameContainer, gameContainerOf } from '../../../src/rules/validation/pod-template.js'
import { frozen } from '../support.js'

const input: SdkConfigInput = frozen({
  heartbeatEndpoint: '10.0.0.4:56001',
  sessionHostId: 'arena-x7k2p.6f1c',
  buildMetadata: { map: 'dust', odd: 'a,b?c=d é' },
  buildID: 'b-1',
  server: { namespace: 'default', name: 'arena-x7k2p' },
  node: 'node-1',
  instanceNumber: 3,
  platform: { titleId: 'A1B2C', region: 'westeurope', fullyQualifiedDomainName: 'node-1.example.com' },
  publicAddress: '203.0.113.9',
  ports: [
    { name: 'game', listening: 7777, public: 10_003 },
    { name: 'port_7778', listening: 7778, public: 10_004 },
  ],
  folders: {
    logs: '/data/GameLogs/',
    dumps: '/data/GameLogs/Dumps',
    certificates: '/data/GameCertificates',
    sharedContent: '/data/GameSharedContent',
  },
})

const addressInAllSpellings = {
  publicIpV4Address: '203.0.113.9',
  publicIpV4Adress: '203.0.113.9',
  IpV4Address: '203.0.113.9',
}

describe('the configuration file', () => {
  it('has exactly the fields that GSDK clients read', () => {
    expect(sdkConfigFile(input)).toStrictEqual({
      heartbeatEndpoint: '10.0.0.4:56001',
      sessionHostId: 'arena-x7k2p.6f1c',
      vmId: 'node-1',
      logFolder: '/data/GameLogs/',
      certificateFolder: '/data/GameCertificates',
      sharedContentFolder: '/data/GameSharedContent',
      buildMetadata: { map: 'dust', odd: 'a,b?c=d é' },
      gamePorts: { game: '7777', port_7778: '7778' },
      gameCertificates: {},
      ...addressInAllSpellings,
      fullyQualifiedDomainName: 'node-1.example.com',
      gameServerConnectionInfo: {
        ...addressInAllSpellings,
        gamePortsConfiguration: [
          { name: 'game', serverListeningPort: 7777, clientConnectionPort: 10_003 },
          { name: 'port_7778', serverListeningPort: 7778, clientConnectionPort: 10_004 },
        ],
      },
      serverInstanceNumber: 3,
    })
  })

  it('has buildMetadata and gamePorts even if they are empty, since the Java client requires them', () => {
    const file: unknown = JSON.parse(JSON.stringify(sdkConfigFile(frozen({ ...input, buildMetadata: {}, ports: [] }))))
    expect(file).toMatchObject({
      buildMetadata: {},
      gamePorts: {},
      gameCertificates: {},
      gameServerConnectionInfo: { ...addressInAllSpellings, gamePortsConfiguration: [] },
    })
  })

  it('survives a JSON round trip', () => {
    const file = sdkConfigFile(input)
    expect(JSON.parse(JSON.stringify(file))).toStrictEqual(file)
  })
})

describe('the environment', () => {
  it('names the server, and includes the fallback variables of two clients', () => {
    expect(sdkEnvironment(input)).toStrictEqual({
      PF_BUILD_ID: 'b-1',
      PF_TITLE_ID: 'A1B2C',
      PF_REGION: 'westeurope',
      PF_VM_ID: 'node-1',
      PF_FQDN: 'node-1.example.com',
      PF_PUBLIC_IPV4_ADDRESS: '203.0.113.9',
      PF_SERVER_INSTANCE_NUMBER: '3',
      PF_SERVER_LOG_DIRECTORY: '/data/GameLogs/',
      PF_SERVER_DUMP_DIRECTORY: '/data/GameLogs/Dumps',
      PF_SHARED_CONTENT_FOLDER: '/data/GameSharedContent',
      CERTIFICATE_FOLDER: '/data/GameCertificates',
      PF_GAMESERVER_NAME: 'arena-x7k2p',
      PF_GAMESERVER_NAMESPACE: 'default',
      PUBLIC_IPV4_ADDRESS: '203.0.113.9',
      HEARTBEAT_ENDPOINT: '10.0.0.4:56001',
      SESSION_HOST_ID: 'arena-x7k2p.6f1c',
      GSDK_LOG_FOLDER: '/data/GameLogs/',
      SHARED_CONTENT_FOLDER: '/data/GameSharedContent',
    })
  })
})

describe('an unknown platform', () => {
  const unknown = frozen({ ...input, platform: { titleId: '', region: '', fullyQualifiedDomainName: '' } })

  it('is NOT_APPLICABLE in the file, as with other agents, and empty in the environment', () => {
    expect(sdkConfigFile(unknown)).toMatchObject({ fullyQualifiedDomainName: 'NOT_APPLICABLE' })
    expect(sdkEnvironment(unknown)).toMatchObject({ PF_TITLE_ID: '', PF_REGION: '', PF_FQDN: '' })
  })
})

describe('the name of a port', () => {
  const ports = (...list: readonly object[]): GameContainer =>
    gameContainerOf(frozen({ spec: { containers: [{ name: 'game', ports: list }] } }))

  it.each([
    ['is the name in the template', ports({ name: 'game', containerPort: 7777 }), 'game'],
    ['is port_<number> without a name', ports({ containerPort: 7777 }), 'port_7777'],
    ['is port_<number> when the template does not list it', ports({ name: 'query', containerPort: 7778 }), 'port_7777'],
    [
      'is found on either protocol',
      ports({ containerPort: 7777 }, { name: 'game', containerPort: 7777, protocol: 'UDP' }),
      'game',
    ],
  ])('%s', (_row, container, name) => {
    expect(portName(container, 7777)).toBe(name)
  })
})
