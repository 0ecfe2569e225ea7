/** The parts of the bundled server that can be tested without starting it. test/e2e starts it. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { spawnSync } from 'node:child_process'
import { describe, expect, it, onTestFinished } from 'vitest'
import { createFleet, FleetError, type GameServerBuild } from 'gamekeeper'
import { memoryBackend } from 'gamekeeper/memory'
import { asUsageError, rememberedPort, rememberPort } from '../../src/server/open-fleet.js'
import { logEvents, type LogLevel, logLevels, serverLog } from '../../src/server/log.js'
import { commandsToTry, ensureSample, quoted } from '../../src/server/sample.js'
import { UsageError } from '../../src/config/usage-error.js'
import { readServerConfig } from '../../src/server/settings.js'
import { settings } from '../../src/config/variables.js'

const never = new AbortController().signal
const read = (env: Record<string, string> = {}) => readServerConfig(env, '/somewhere')

describe('the settings of the bundled server', () => {
  it('have defaults that suit a laptop', () => {
    expect(read()).toEqual({
      backend: 'process',
      isolation: 'none',
      readOnlyPaths: [],
      runAs: undefined,
      host: '127.0.0.1',
      insecure: false,
      allocationPort: 5000,
      managementPort: 5001,
      health: undefined,
      forwarding: undefined,
      agentPort: 56001,
      agentHost: undefined,
      agentAddress: undefined,
      dataDir: '/somewhere/.gamekeeper',
      portRange: { first: 10_000, last: 12_000 },
      publicAddress: undefined,
      titleId: undefined,
      region: undefined,
      fullyQualifiedDomainName: undefined,
      namespaces: undefined,
      leaseMs: 2_000,
      prePullImages: false,
      sample: true,
      rateLimit: 1000,
      budget: undefined,
      audit: true,
      acceptStoreLoss: false,
      tokens: [],
      tls: undefined,
      webhook: undefined,
      compat: undefined,
      sessionIDs: 'guid',
      apiGroup: 'mps.gamekeeper.com',
      allowedHosts: [],
      allowedOrigins: [],
      scalingWebhooks: [],
      logLevel: 'info',
    })
  })

  it('are read from the environment', () => {
    const env = {
      BACKEND: 'process',
      ISOLATION: 'systemd',
      READ_ONLY_PATHS: '/srv/game, /opt/engine',
      RUN_AS: 'games:1234',
      HOST: '0.0.0.0',
      ALLOCATION_PORT: '0',
      MANAGEMENT_PORT: '65535',
      ALLOCATION_URL: 'https://play.example.com/fleet/',
      MANAGEMENT_URL: 'http://gamekeeper-management.games:5001',
      GRPC_PORT: '8443',
      HEALTH_PORT: '8080',
      HEALTH_HOST: '10.0.0.9',
      FORWARDING_ADDRESS: '10.0.0.4',
      FORWARDING_PORT: '7002',
      AGENT_PORT: '7000',
      AGENT_HOST: '::',
      AGENT_ADDRESS: '10.0.0.4:7001',
      DATA_DIR: '/var/lib/gamekeeper',
      PORT_RANGE: '7-7',
      PUBLIC_ADDRESS: 'play.example.com',
      TITLE_ID: 'A1B2C',
      REGION: 'westeurope',
      FULLY_QUALIFIED_DOMAIN_NAME: '{node}.example.com',
      SYSTEM_NAMESPACE: 'fleet',
      NAMESPACES: 'duels, arenas',
      POD_NAME: 'gamekeeper-x2x4q',
      LEASE_MS: '5000',
      CORDON_NOTICE_SECONDS: '900',
      PRE_PULL_IMAGES: 'on',
      SAMPLE: 'off',
      ALLOCATE_TOKENS: 'matchmaker:aaaaaaaaaaaaaaaa, bbbbbbbbbbbbbbbb',
      READ_TOKENS: 'cccccccccccccccc',
      MANAGE_TOKENS: 'ops:bbbbbbbbbbbbbbbb',
      ALLOCATE_TOKENS_FILE: 'allocate',
      READ_TOKENS_FILE: 'read',
      MANAGE_TOKENS_FILE: 'manage',
      TLS_CERT: 'server.pem',
      TLS_KEY: 'server.key',
      TLS_CLIENT_CA: 'ca.pem',
      RATE_LIMIT: 'off',
      BUDGET_SERVERS: '100',
      BUDGET_CPU: '500m',
      BUDGET_MEMORY: '64Gi',
      AUDIT: 'off',
      ACCEPT_STORE_LOSS: '1',
      INSECURE: '0',
      WEBHOOK_URL: 'https://example.com/hook',
      WEBHOOK_SECRET: '0123456789abcdef',
      WEBHOOK_SECRET_FILE: 'webhook',
      SCALING_WEBHOOKS: 'https://demand.example, http://127.0.0.1:8080',
      COMPAT: 'agones',
      SESSION_IDS: 'any',
      API_GROUP: 'mps.playfab.com',
      ALLOWED_HOSTS: 'fleet.example, fleet',
      ALLOWED_ORIGINS: 'https://console.example, http://localhost:3000',
      LOG_LEVEL: 'silent',
    }
    expect(Object.keys(env)).toEqual(Object.keys(settings))
    expect(read(env)).toEqual({
      backend: 'process',
      isolation: 'systemd',
      readOnlyPaths: ['/srv/game', '/opt/engine'],
      runAs: { user: 'games', group: 1234 },
      host: '0.0.0.0',
      insecure: false,
      allocationPort: 0,
      managementPort: 65_535,
      allocationUrl: 'https://play.example.com/fleet',
      managementUrl: 'http://gamekeeper-management.games:5001',
      grpcPort: 8_443,
      health: { host: '10.0.0.9', port: 8_080 },
      forwarding: undefined,
      agentPort: 7000,
      agentHost: '::',
      agentAddress: '10.0.0.4:7001',
      dataDir: '/var/lib/gamekeeper',
      portRange: { first: 7, last: 7 },
      systemNamespace: 'fleet',
      namespaces: ['duels', 'arenas'],
      podName: 'gamekeeper-x2x4q',
      leaseMs: 5_000,
      cordonNoticeMs: 900_000,
      publicAddress: 'play.example.com',
      titleId: 'A1B2C',
      region: 'westeurope',
      fullyQualifiedDomainName: '{node}.example.com',
      prePullImages: true,
      sample: false,
      rateLimit: undefined,
      budget: { servers: 100, cpu: '500m', memory: '64Gi' },
      audit: false,
      acceptStoreLoss: true,
      tokens: [
        { token: 'aaaaaaaaaaaaaaaa', roles: ['allocate'], name: 'matchmaker' },
        { token: 'bbbbbbbbbbbbbbbb', roles: ['allocate', 'manage'], name: 'ops' },
        { token: 'cccccccccccccccc', roles: ['read'], name: 'READ_TOKENS[0]' },
      ],
      tls: { cert: 'server.pem', key: 'server.key', ca: 'ca.pem' },
      webhook: { url: 'https://example.com/hook', secret: '0123456789abcdef' },
      compat: 'agones',
      sessionIDs: 'any',
      apiGroup: 'mps.playfab.com',
      allowedHosts: ['fleet.example', 'fleet'],
      allowedOrigins: ['https://console.example', 'http://localhost:3000'],
      scalingWebhooks: ['https://demand.example', 'http://127.0.0.1:8080'],
      logLevel: 'silent',
    })
  })

  it.each([
    'gamekeeper-allocation:5000',
    'ftp://play.example.com',
    'http://play.example.com/?a=b',
    'http://me@example.com',
  ])('refuse %s as the URL of an API', (url) => {
    expect(() => read({ ALLOCATION_URL: url })).toThrow(
      `ALLOCATION_URL must be a URL like http://gamekeeper-allocation.games:5000, but is ${JSON.stringify(url)}`,
    )
  })

  it('choose the formats of Thundernetes', () => {
    expect(read({ COMPAT: 'thundernetes' }).compat).toBe('thundernetes')
  })

  it.each(['[fd00::4]:7001', '[fd00::4]', 'agent.games.svc'])('accept %s as the agent address', (address) => {
    expect(read({ AGENT_ADDRESS: address }).agentAddress).toBe(address)
  })

  it('accept an unbracketed IPv6 address with a port when it is unambiguous', () => {
    expect(read({ AGENT_ADDRESS: 'fd00:10:96::a1:56001' }).agentAddress).toBe('[fd00:10:96::a1]:56001')
    expect(read({ AGENT_ADDRESS: '1:2:3:4:5:6:7:8:5600' }).agentAddress).toBe('[1:2:3:4:5:6:7:8]:5600')
  })

  it.each([
    ['BACKEND', 'Process', 'must be process, docker, kubernetes or memory, but is "Process"'],
    ['HOST', 'http://here', 'must be an IP address or a host name, but is "http://here"'],
    ['ALLOCATION_PORT', '-1', 'must be a port from 0 to 65535, but is "-1"'],
    ['ALLOCATION_PORT', '65536', 'must be a port from 0 to 65535, but is "65536"'],
    ['MANAGEMENT_PORT', '5001.5', 'must be a port from 0 to 65535, but is "5001.5"'],
    ['GRPC_PORT', '8443', "is for callers of Agones' allocator: set COMPAT=agones"],
    ['HEALTH_PORT', '80800', 'must be a port from 0 to 65535, but is "80800"'],
    ['HEALTH_HOST', '10.0.0.9', 'is the address of HEALTH_PORT: set both'],
    ['FORWARDING_PORT', 'auto', 'must be a port from 0 to 65535, but is "auto"'],
    ['AGENT_PORT', 'auto', 'must be a port from 0 to 65535, but is "auto"'],
    ['AGENT_HOST', 'a b', 'must be an IP address or a host name, but is "a b"'],
    ['AGENT_ADDRESS', 'http://10.0.0.4', 'must be a host or host:port, without http://, but is "http://10.0.0.4"'],
    ['AGENT_ADDRESS', '10.0.0.4:0', 'must be a host or host:port, without http://, but is "10.0.0.4:0"'],
    [
      'AGENT_ADDRESS',
      'fd00::4:7001',
      'must have its IPv6 address in brackets, like [fd00::4] or [fd00::4]:56001, but is "fd00::4:7001"',
    ],
    ['AGENT_ADDRESS', 'fd00::4:70001', 'must be a host or host:port, without http://, but is "[fd00::4]:70001"'],
    ['DATA_DIR', '', 'is set but empty'],
    ['RATE_LIMIT', '0', 'must be a number of requests per second from 1 to 999999, or off, but is "0"'],
    ['AUDIT', 'yes', 'must be on or off, but is "yes"'],
    ['ACCEPT_STORE_LOSS', 'yes', 'must be 0 or 1, but is "yes"'],
    ['PORT_RANGE', '12000-10000', 'must be a range of ports from 1 to 65535, like 10000-12000, but is "12000-10000"'],
    ['PORT_RANGE', '10000', 'must be a range of ports from 1 to 65535, like 10000-12000, but is "10000"'],
    ['PUBLIC_ADDRESS', '203.0.113.9:7777', 'must be an IP address or a host name, but is "203.0.113.9:7777"'],
    ['TITLE_ID', ' ', 'is set but empty'],
    ['REGION', '', 'is set but empty'],
    [
      'FULLY_QUALIFIED_DOMAIN_NAME',
      '{host}.example.com',
      'must be a DNS name such as {node}.example.com, without a port, but is "{host}.example.com"',
    ],
    ['LEASE_MS', '1999', 'must be a number of milliseconds from 2000 to 99999999, but is "1999"'],
    ['LEASE_MS', '2s', 'must be a number of milliseconds from 2000 to 99999999, but is "2s"'],
    ['CORDON_NOTICE_SECONDS', '0', 'must be a number of seconds from 1 to 99999999, but is "0"'],
    ['CORDON_NOTICE_SECONDS', '15m', 'must be a number of seconds from 1 to 99999999, but is "15m"'],
    ['BUDGET_SERVERS', '0', 'must be a number from 1 to 99999999, but is "0"'],
    ['BUDGET_CPU', 'four', 'must be a Kubernetes quantity above 0, such as 16 or 500m, but is "four"'],
    ['BUDGET_MEMORY', '0', 'must be a Kubernetes quantity above 0, such as 64Gi, but is "0"'],
    ['PRE_PULL_IMAGES', 'true', 'must be on or off, but is "true"'],
    ['SAMPLE', 'yes', 'must be on or off, but is "yes"'],
    ['INSECURE', 'yes', 'must be 0 or 1, but is "yes"'],
    ['COMPAT', 'multiplay', 'must be thundernetes or agones, but is "multiplay"'],
    ['SESSION_IDS', 'uuid', 'must be guid or any, but is "uuid"'],
    ['API_GROUP', 'mps', 'must be a domain such as mps.gamekeeper.com, but is "mps"'],
    [
      'ALLOWED_ORIGINS',
      'https://console.example/',
      'must be origins like https://console.example, without a path, but is "https://console.example/"',
    ],
    ['SCALING_WEBHOOKS', '*', 'must be origins like https://console.example, without a path, but is "*"'],
    ['LOG_LEVEL', 'verbose', 'must be debug, info, warn, error or silent, but is "verbose"'],
  ])('reject %s=%j', (name, value, problem) => {
    expect(() => read({ [name]: value })).toThrow(new UsageError(`${name} ${problem}`))
  })

  it.each([
    ['10.0.0.4', '10.0.0.4:5002'],
    ['fd00::4', '[fd00::4]:5002'],
    ['[fd00::4]:7002', '[fd00::4]:7002'],
    ['host-1.example.com:7002', 'host-1.example.com:7002'],
  ])('read FORWARDING_ADDRESS=%s', (given, address) => {
    const { forwarding } = read({ BACKEND: 'kubernetes', FORWARDING_ADDRESS: given })
    expect(forwarding).toEqual({ address, port: 5_002 })
  })

  it.each(['0.0.0.0', '::', '192.0.2.7', 'fleet.example.com'])('reject HOST=%s without authentication', (HOST) => {
    const all = 'a'.repeat(16)
    expect(() => read({ HOST })).toThrow(
      new UsageError(
        `HOST=${HOST} would let anyone who can reach this machine allocate game servers and end matches: set ALLOCATE_TOKENS and MANAGE_TOKENS, or TLS_CERT, TLS_KEY and TLS_CLIENT_CA for client certificates, or INSECURE=1 if a proxy in front authenticates callers`,
      ),
    )
    const tls = { TLS_CERT: 'a', TLS_KEY: 'b' }
    expect(() => read({ HOST, ...tls })).toThrow(UsageError)
    for (const env of [{ MANAGE_TOKENS: all }, { ...tls, TLS_CLIENT_CA: 'c' }, { INSECURE: '1' }]) {
      expect(read({ HOST, ...env }).host).toBe(HOST)
    }
  })

  it('reject ALLOWED_ORIGINS=* without authentication', () => {
    const ALLOWED_ORIGINS = '*'
    expect(() => read({ ALLOWED_ORIGINS })).toThrow(/^ALLOWED_ORIGINS=\* would let any web page open in a browser/)
    expect(read({ ALLOWED_ORIGINS, MANAGE_TOKENS: 'a'.repeat(16) }).allowedOrigins).toEqual(['*'])
  })

  it.each(['127.0.0.1', '127.8.9.1', '::1', 'localhost'])('accept HOST=%s without authentication', (HOST) => {
    expect(read({ HOST }).host).toBe(HOST)
  })

  it.each([
    [{ ALLOCATE_TOKENS: 'short' }, 'ALLOCATE_TOKENS must be comma-separated tokens'],
    [{ ALLOCATE_TOKENS: `:${'secret'.repeat(4)}` }, 'ALLOCATE_TOKENS must be comma-separated tokens'],
    [{ MANAGE_TOKENS: `${'a'.repeat(16)},` }, 'MANAGE_TOKENS must be comma-separated tokens'],
    [{ READ_TOKENS: `${'secret'.repeat(4)} x` }, 'READ_TOKENS must be comma-separated tokens'],
    [{ WEBHOOK_URL: 'http://a' }, 'WEBHOOK_URL and WEBHOOK_SECRET must be set together'],
    [{ WEBHOOK_URL: 'http://a', WEBHOOK_SECRET: 'short' }, 'WEBHOOK_SECRET must have at least 16'],
    [{ WEBHOOK_URL: 'hooks.a/secret', WEBHOOK_SECRET: '0123456789abcdef' }, 'WEBHOOK_URL must be a URL'],
    [{ ISOLATION: 'chroot' }, 'ISOLATION must be none, user or systemd'],
    [{ ISOLATION: 'user', BACKEND: 'docker' }, 'ISOLATION, RUN_AS and READ_ONLY_PATHS apply only to BACKEND=process'],
    [{ FORWARDING_ADDRESS: '10.0.0.4', FORWARDING_PORT: '0', BACKEND: 'kubernetes' }, 'FORWARDING_PORT must not be 0'],
    [{ RUN_AS: 'a:b:c' }, 'RUN_AS must be user or user:group'],
    [{ TLS_CERT: 'a' }, 'TLS_CERT and TLS_KEY must be set together'],
    [{ TLS_CLIENT_CA: 'a' }, 'TLS_CLIENT_CA requires both'],
  ])('reject %j', (env, problem) => {
    expect(() => read(env)).toThrow(
      expect.objectContaining({ name: 'UsageError', message: expect.stringContaining(problem) }),
    )
    expect(() => read(env)).not.toThrow(/secret/)
  })
})

describe('the log', () => {
  function logged(
    level: LogLevel,
    json: boolean,
  ): { readonly lines: string[]; readonly log: ReturnType<typeof serverLog> } {
    const lines: string[] = []
    return { lines, log: serverLog({ level, json, write: (line) => lines.push(line) }) }
  }

  it.each(logLevels)('at level %s contains that level and higher ones', (level) => {
    const { lines, log } = logged(level, true)
    for (const name of ['debug', 'info', 'warn', 'error'] as const) log[name]({}, name)
    const messages = lines.map((line) => String(JSON.parse(line).message))
    expect(messages).toEqual(['debug', 'info', 'warn', 'error'].slice(logLevels.indexOf(level)))
  })

  it('is one JSON object per line, regardless of field names and values', () => {
    const { lines, log } = logged('info', true)
    const error = new Error('a\nb', { cause: Object.assign(new Error('c'), { code: 'EIO' }) })
    log.warn({ level: 'x', message: 'y', server: 'arena-1', err: error, nothing: undefined }, 'it\nhappened')
    expect(lines).toHaveLength(1)
    expect(lines[0]).not.toContain('\n')
    expect(JSON.parse(lines[0] ?? '')).toEqual({
      level: 'warn',
      time: expect.stringMatching(/^\d{4}-.*Z$/),
      message: 'it\nhappened',
      server: 'arena-1',
      err: { message: 'a\nb', cause: { message: 'c', code: 'EIO' } },
    })
  })

  it('is one readable line per entry, which no value can break up', () => {
    const { lines, log } = logged('info', false)
    log.info({ url: 'http://127.0.0.1:5000', said: 'a b\n', count: 3 }, 'one\ntwo \u001b[31mred')
    log.error({}, 'broken')
    expect(lines[0]).toMatch(
      /^\d\d:\d\d:\d\d one two \?\[31mred {2}url=http:\/\/127\.0\.0\.1:5000 said="a b\\n" count=3$/,
    )
    expect(lines[1]).toMatch(/^\d\d:\d\d:\d\d ERROR broken$/)
  })

  it('is clean of control characters, including C1 and line separators', () => {
    // eslint-disable-next-line no-control-regex -- the pattern must match control characters
    const unsafe = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u2028\u2029]/
    const all = String.fromCharCode(...Array.from({ length: 0xa0 }, (_, code) => code), 0x2028, 0x2029)
    const err = new Error(`broken ${all}`, { cause: all })
    for (const json of [false, true]) {
      const { lines, log } = logged('debug', json)
      log.error({ said: all, nested: { [all]: [all] }, err }, `it said ${all}`)
      const [head = '', ...stack] = (lines[0] ?? '').split('\n')
      for (const line of [head, ...stack]) expect(line).not.toMatch(unsafe)
      for (const line of stack) expect(line).toMatch(/^ {4}at /)
      if (json) expect(JSON.parse(head)).toMatchObject({ said: all, nested: { [all]: [all] } })
    }
  })

  it('joins lines with one space, whatever separates them', () => {
    const { lines, log } = logged('info', false)
    log.info({}, 'one \r\n  two\u0085three\u2028four \n five')
    expect(lines[0]).toMatch(/^\d\d:\d\d:\d\d one two three four five$/)
  })

  // In quadratic time, these would take hours.
  it.each([
    ['spaces', ' '.repeat(2_000_000)],
    ['line breaks', '\n'.repeat(2_000_000)],
    ['spaces and line breaks', ' \n'.repeat(1_000_000)],
    ['tabs between words', `a${'\t'.repeat(1_000_000)}b${' '.repeat(1_000_000)}c`],
  ])('takes linear time for millions of %s', (_, text) => {
    const { lines, log } = logged('info', false)
    log.error({ said: text, err: new Error(text, { cause: new Error(text) }) }, text)
    expect(lines).toHaveLength(1)
    expect((lines[0] ?? '').length).toBeLessThan(7 * text.length)
  })

  it('shows an error with its code and causes, and at level debug with its stack trace', () => {
    const err = Object.assign(new Error('write failed'), { code: 'EIO', cause: new Error('disk\ngone') })
    const readable = logged('info', false)
    readable.log.error({ err }, 'broken')
    expect(readable.lines[0]).toMatch(/^\d\d:\d\d:\d\d ERROR broken {2}err="write failed \(EIO\): disk\\ngone"$/)
    const debug = logged('debug', false)
    debug.log.error({ err }, 'broken')
    expect(debug.lines[0]).toMatch(/disk\\ngone"\n {4}at .*server\.test/)
    const json = logged('debug', true)
    json.log.error({ err }, 'broken')
    expect(JSON.parse(json.lines[0] ?? '').err).toEqual({
      message: 'write failed',
      code: 'EIO',
      cause: { message: 'disk\ngone' },
      stack: expect.stringContaining('server.test'),
    })
  })

  it('reports that the server is ready at every level but silent', () => {
    const { lines, log } = logged('error', true)
    log.always({}, 'ready')
    expect(lines).toHaveLength(1)
    const silent = logged('silent', true)
    silent.log.always({}, 'ready')
    expect(silent.lines).toEqual([])
  })

  it('contains each fleet event once', async () => {
    const { lines, log } = logged('info', true)
    const fleet = await createFleet({ backend: memoryBackend(), logger: log })
    onTestFinished(() => fleet.close())
    logEvents(fleet, log)
    const build = await ensureSample({ fleet, backend: 'memory', log, signal: never })
    const sessionID = '0b0e5a52-9a54-4b0e-8f4c-54d7a0b3f001'
    await fleet.allocate({ buildID: build?.spec.buildID ?? '', sessionID }, { waitMs: 60_000 })
    await fleet.builds.patch('arena', { standingBy: 1 })
    await fleet.builds.delete('arena')
    const events: unknown[] = lines.map((line) => JSON.parse(line).event).filter((event) => event !== 'ServerEnding')
    expect(events).toEqual(['BuildCreated', 'Audited', 'Allocated', 'BuildPatched', 'BuildDeleted'])
    expect(JSON.parse(lines[1] ?? '')).toMatchObject({ action: 'createBuild', build: 'arena', caller: 'sample' })
    expect(JSON.parse(lines[2] ?? '')).toMatchObject({
      build: 'arena',
      session: sessionID,
      waitedMs: expect.any(Number),
    })
  })
})

describe('the sample', () => {
  const silent = serverLog({ level: 'silent', json: true, write: () => {} })
  const commandsInput = {
    allocationUrl: 'http://127.0.0.1:5000',
    managementUrl: 'http://127.0.0.1:5001',
    simulated: false,
  }

  async function sample(): Promise<GameServerBuild> {
    const fleet = await createFleet({ backend: memoryBackend() })
    onTestFinished(() => fleet.close())
    const build = await ensureSample({ fleet, backend: 'memory', log: silent, signal: never })
    if (!build) throw new Error('no sample was made')
    expect(await ensureSample({ fleet, backend: 'memory', log: silent, signal: never })).toMatchObject({
      metadata: build.metadata,
    })
    expect(await fleet.builds.list()).toHaveLength(1)
    return build
  }

  it('runs an existing file, regardless of the working directory', async () => {
    const { spec } = await sample()
    const path = /"(\/[^"]*server\.mjs)"/.exec(JSON.stringify(spec.template))?.[1] ?? ''
    expect(await readFile(path, 'utf8')).toContain('gamekeeper/sdk')
  })

  it('is not created in a fleet that already has builds', async () => {
    const fleet = await createFleet({ backend: memoryBackend() })
    onTestFinished(() => fleet.close())
    const { metadata, spec } = await sample()
    await fleet.builds.create({ metadata: { name: 'other' }, spec: { ...spec, buildID: 'other' } })
    expect(await ensureSample({ fleet, backend: 'memory', log: silent, signal: never })).toBeUndefined()
    expect((await fleet.builds.list()).map((build) => build.metadata.name)).toEqual(['other'])
    expect(metadata.name).toBe('arena')
  })

  it('comes with three curl commands that work in any shell', async () => {
    const build = await sample()
    const lines = commandsToTry(build, commandsInput).filter((line) => line.startsWith('curl '))
    expect(lines).toHaveLength(3)
    for (const line of lines) expect(line).not.toMatch(/[^\u0020-\u007e]|!/)
    expect(commandsToTry(build, commandsInput)).toContain('nc ADDRESS PORT')
    expect(commandsToTry(build, { ...commandsInput, simulated: true }).join('\n')).not.toContain('nc ')
  })

  it('quotes shell metacharacters', () => {
    const text = `it's $HOME !! \`id\` "x" \\ ?*[a] #~`
    const { stdout } = spawnSync('sh', ['-c', `printf %s ${quoted(text)}`], { encoding: 'utf8' })
    expect(stdout).toBe(text)
  })
})

describe('the agent port', () => {
  it('is stored in DATA_DIR', async () => {
    const dataDir = await mkdtemp(join(tmpdir(), 'gamekeeper-server-'))
    onTestFinished(() => rm(dataDir, { recursive: true, force: true }))
    expect(await rememberedPort(dataDir)).toBeUndefined()
    await rememberPort(dataDir, 4711)
    expect(await rememberedPort(dataDir)).toBe(4711)
    for (const nonsense of ['', '0\n', '99999\n', '4711', 'port\n']) {
      await writeFile(join(dataDir, 'agent-port'), nonsense)
      expect(await rememberedPort(dataDir)).toBeUndefined()
    }
  })
})

describe('errors', () => {
  it('that the operator cannot fix are passed on unchanged', () => {
    for (const error of [new Error('x'), new FleetError('internal', 'x'), 'x']) expect(asUsageError(error)).toBe(error)
  })
})
