import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { start } from 'gamekeeper/sdk'
import { FleetError } from '../../src/contracts/errors.js'
import { readConfig } from '../../src/sdk/config.js'
import { configuredFor, fakeAgent, guid, recordingLogger, startAgainst, temporaryFolder, until } from './fake-agent.js'

async function fileOf(content: unknown): Promise<string> {
  const path = join(await temporaryFolder(), 'gsdkConfig.json')
  await writeFile(path, typeof content === 'string' ? content : JSON.stringify(content))
  return path
}

const refusalOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => 'no refusal',
    (error: unknown) => error,
  )

describe('the configuration of a game server', () => {
  it('is read from the file that the fleet writes', async () => {
    const agent = await fakeAgent()
    const { config, logs } = await startAgainst(agent)
    expect(config).toMatchObject({
      serverId: 'arena-x7k2p',
      publicAddress: '203.0.113.9',
      ports: { game: { listening: 7777, public: 10_003 } },
      buildMetadata: { map: 'dust' },
      serverInstanceNumber: 2,
      fullyQualifiedDomainName: 'node-1.example.com',
    })
    expect(config.folders.logs).toBe(logs.folder)
    expect(config.folders.logs).toMatch(/GameLogs$/)
    expect(config.folders.certificates).toMatch(/certs$/)
    expect(config.folders.sharedContent).toBeDefined()
    expect(config.raw['sessionHostId']).toBe('arena-x7k2p.6f1c')
    expect(config.raw['vmId']).toBe('node-1')
  })

  it('finds a port by name, by its number in the template, or without either if there is only one', async () => {
    const gamePorts = { game: '10003', query: '10004' }
    const path = await fileOf({ heartbeatEndpoint: 'agent.internal', sessionHostId: guid, gamePorts })
    const { config } = await readConfig({ GSDK_CONFIG_FILE: path, PORT_7777: '10003', PORT_27015: '10004' })
    const { port } = config
    expect(port('game')).toEqual({ listening: 10_003, public: 10_003 })
    expect(port(27_015)).toBe(config.ports['query'])
    expect(() => port('gmae')).toThrow(
      new FleetError(
        'invalid',
        'config.port: port "gmae" does not exist: this server has game (7777), query (27015); did you mean game?',
      ),
    )
    expect(() => port()).toThrow(
      'config.port: port needs a name or a number: this server has game (7777), query (27015)',
    )
    expect(structuredClone(config)).toEqual({ ...config })

    const one = await fileOf({ heartbeatEndpoint: 'agent', sessionHostId: guid, gamePorts: { game: '7777' } })
    const other = (await readConfig({ GSDK_CONFIG_FILE: one })).config
    expect([other.port(), other.port(7777)]).toEqual([other.ports['game'], other.ports['game']])
    const none = await fileOf({ heartbeatEndpoint: 'agent', sessionHostId: guid })
    await expect(readConfig({ GSDK_CONFIG_FILE: none }).then(({ config: empty }) => empty.port())).rejects.toThrow(
      'config.port: port does not exist: this server has no public ports; list them in portsToExpose of its build',
    )
  })

  it('includes what agents pass only in the environment', async () => {
    const path = await fileOf({
      ...{ heartbeatEndpoint: 'agent.internal', sessionHostId: guid, fullyQualifiedDomainName: 'NOT_APPLICABLE' },
    })
    const { config } = await readConfig({
      ...{ GSDK_CONFIG_FILE: path, PF_TITLE_ID: 'A1B2C', PF_REGION: 'westeurope', PF_FQDN: 'node-1.example.com' },
      ...{ PF_SERVER_INSTANCE_NUMBER: '4', PF_SERVER_DUMP_DIRECTORY: '/logs/Dumps', CERTIFICATE_FOLDER: '/certs' },
    })
    expect(config).toMatchObject({
      ...{ titleId: 'A1B2C', region: 'westeurope', fullyQualifiedDomainName: 'node-1.example.com' },
      ...{ serverInstanceNumber: 4, folders: { dumps: '/logs/Dumps', certificates: '/certs' } },
    })
  })

  it('may have the formats of other agents, which omit fields or spell them differently', async () => {
    const path = await fileOf({
      heartbeatEndpoint: 'agent.internal',
      sessionHostId: guid,
      publicIpV4Adress: '203.0.113.7',
      gamePorts: { game: '7777', query: 27015, odd: 'x' },
      gameServerConnectionInfo: { gamePortsConfiguration: [{ name: 'game', clientConnectionPort: 10_004 }, 'odd', {}] },
      buildMetadata: { rounds: 3 },
      logFolder: '',
    })
    const { config, agent } = await readConfig({ GSDK_CONFIG_FILE: path, PF_SERVER_LOG_DIRECTORY: '/logs' })
    expect(agent.origin.host).toBe('agent.internal:56001')
    expect(config.serverId).toBe(guid)
    expect(config.publicAddress).toBe('203.0.113.7')
    expect(config.ports).toEqual({
      game: { listening: 7777, public: 10_004 },
      query: { listening: 27_015, public: 27_015 },
    })
    expect(config.buildMetadata).toEqual({ rounds: '3' })
    expect(config.folders).toEqual({
      ...{ logs: '/logs', dumps: undefined, certificates: undefined, sharedContent: undefined },
    })
    expect(config).toMatchObject({ serverInstanceNumber: 0, fullyQualifiedDomainName: undefined, region: undefined })
  })

  it.each([
    ['10.0.0.4:56001', '10.0.0.4:56001'],
    ['[::1]:5000', '[::1]:5000'],
    ['10.0.0.4:80', '10.0.0.4'],
    ['host', 'host:56001'],
  ])('takes the endpoint %s as %s', async (heartbeatEndpoint, host) => {
    const path = await fileOf({ heartbeatEndpoint, sessionHostId: 'a.b' })
    expect((await readConfig({ GSDK_CONFIG_FILE: path })).agent.origin.host).toBe(host)
  })

  it('fails with an error that names the variable and the path if the file is missing', async () => {
    const path = join(await temporaryFolder(), 'none.json')
    const refusal = await refusalOf(start({ env: { GSDK_CONFIG_FILE: path } }))
    expect(FleetError.is(refusal, 'invalid')).toBe(true)
    expect(String(refusal)).toContain('GSDK_CONFIG_FILE')
    expect(String(refusal)).toContain(path)
  })

  it.each([
    ['no JSON', '{"heartbeatEndpoint":', /is not JSON/],
    ['no object', '[]', /must hold a JSON object, but holds \[\]/],
    ['no endpoint', { sessionHostId: 'a.b' }, /heartbeatEndpoint .* must be host:port, but is absent/],
    [
      'an endpoint with a scheme',
      { sessionHostId: 'a.b', heartbeatEndpoint: 'http://a:1' },
      /must be host:port, but is "http/,
    ],
    ['an endpoint with a bad port', { sessionHostId: 'a.b', heartbeatEndpoint: 'a:99999' }, /must be host:port/],
    ['no id', { heartbeatEndpoint: 'a:1', sessionHostId: '' }, /sessionHostId .* must be a non-empty string/],
  ])(
    'fails with an error that names the variable and the path if the file holds %s',
    async (_what, content, reason) => {
      const path = await fileOf(content)
      const env = { GSDK_CONFIG_FILE: path, HEARTBEAT_ENDPOINT: 'a:1', SESSION_HOST_ID: 'a.b' }
      const refusal = await refusalOf(start({ env }))
      expect(FleetError.is(refusal, 'invalid')).toBe(true)
      expect(String(refusal)).toMatch(reason)
      expect(String(refusal)).toContain(`${path} named by GSDK_CONFIG_FILE`)
    },
  )

  it('fails with an error that says what to set if nothing is set', async () => {
    const refusal = await refusalOf(start({ env: {} }))
    expect(FleetError.is(refusal, 'invalid')).toBe(true)
    expect(String(refusal)).toMatch(/GSDK_CONFIG_FILE is not set.*HEARTBEAT_ENDPOINT and SESSION_HOST_ID/)
  })

  it('falls back to the environment, with a log message if a file was named', async () => {
    const agent = await fakeAgent()
    const logger = recordingLogger()
    const fallback = {
      HEARTBEAT_ENDPOINT: agent.endpoint,
      SESSION_HOST_ID: 'arena-1.s',
      PUBLIC_IPV4_ADDRESS: '203.0.113.1',
      GSDK_LOG_FOLDER: await temporaryFolder(),
    }
    const path = '/nowhere/gsdkConfig.json'
    const gsdk = await start({ env: { ...fallback, GSDK_CONFIG_FILE: path }, logger })
    await until(() => agent.beats.length > 0)
    gsdk.stop()
    expect(agent.last()?.path).toBe('/v1/sessionHosts/arena-1.s')
    expect(gsdk.config).toMatchObject({ serverId: 'arena-1', publicAddress: '203.0.113.1', ports: {} })
    expect(gsdk.logs.folder).toBe(fallback.GSDK_LOG_FOLDER)
    expect(logger.warn).toHaveBeenCalledExactlyOnceWith({}, expect.stringContaining(path))

    const silent = await readConfig(fallback)
    expect(silent.notice).toBeUndefined()
  })

  it('may contain an ID that must be encoded in URLs', async () => {
    const agent = await fakeAgent()
    const { GSDK_CONFIG_FILE } = await configuredFor(agent.endpoint, { sessionHostId: 'a/b?c#d é' })
    await startAgainst(agent, { env: { GSDK_CONFIG_FILE } })
    await until(() => agent.beats.length > 0)
    expect(agent.last()?.path).toBe(`/v1/sessionHosts/${encodeURIComponent('a/b?c#d é')}`)
  })
})
