/** Parsing of templates, options, image names and engine streams, without an engine. */
import { describe, expect, it } from 'vitest'
import { quantityOf } from '../../../src/rules/model/quantity.js'
import { readImageName } from '../../../adapters/shared/image-name.js'
import { framesOf, linesOf } from '../../../adapters/docker/docker-client.js'
import { resolveDockerOptions, type DockerBackendOptions } from '../../../adapters/docker/options.js'
import { checkForDocker, containerConfig } from '../../../adapters/docker/container-config.js'
import { Readable } from 'node:stream'
import { specOf } from './support.js'

function bodyOf(container: object, options: DockerBackendOptions = {}, heartbeatEndpoint = '127.0.0.1:56001') {
  const spec = specOf('true', { name: 'arena-x7k2p', ports: [7777, 7000], container, heartbeatEndpoint })
  const ports = [
    { container: 7777, public: 10_001 },
    { container: 7000, public: 10_002 },
  ]
  return containerConfig({
    spec,
    identity: { ref: spec.ref, uid: spec.uid, address: '203.0.113.7', instanceNumber: 2, ports },
    fleet: 'f1',
    engine: { node: 'box', logDriver: 'json-file' },
    options: resolveDockerOptions({ ...options, docker: { modem: { dial() {} } } }),
  })
}

describe('the container config', () => {
  it('has the image, command, environment, ports, labels, and limits of the first container', () => {
    const { image, pullPolicy, body } = bodyOf({
      image: 'ghcr.io/studio/arena:1',
      command: ['./arena', '$(MODE)'],
      args: ['--port', '$(PORT_7777)', '$$(MODE)'],
      env: [{ name: 'MODE', value: 'duel' }],
      workingDir: '/game',
      resources: { limits: { cpu: '500m', memory: '256Mi' }, requests: { cpu: '1' } },
    })
    expect({ image, pullPolicy }).toEqual({ image: 'ghcr.io/studio/arena:1', pullPolicy: 'IfNotPresent' })
    expect(body).toMatchObject({
      Image: 'ghcr.io/studio/arena:1',
      Entrypoint: ['./arena', 'duel'],
      Cmd: ['--port', '7777', '$(MODE)'],
      WorkingDir: '/game',
      Env: expect.arrayContaining([
        'MODE=duel',
        'PORT_7777=7777',
        'PUBLIC_IPV4_ADDRESS=203.0.113.7',
        'GSDK_CONFIG_FILE=/gamekeeper/gsdkConfig.json',
      ]),
      ExposedPorts: { '7777/tcp': {}, '7777/udp': {}, '7000/tcp': {}, '7000/udp': {} },
      Labels: {
        'gamekeeper.fleet': 'f1',
        'gamekeeper.server': 'arena-x7k2p',
        'gamekeeper.ports': '7777:10001,7000:10002',
      },
      HostConfig: {
        RestartPolicy: { Name: 'no' },
        AutoRemove: false,
        Init: true,
        NanoCpus: 500_000_000,
        Memory: 256 * 2 ** 20,
        MemorySwap: 256 * 2 ** 20,
        LogConfig: { Type: 'json-file', Config: { 'max-size': '10m', 'max-file': '2' } },
      },
    })
  })

  it('publishes TCP and UDP on the same public port', () => {
    const own = [{ HostIp: '0.0.0.0', HostPort: '10001' }]
    expect(bodyOf({}).body).toMatchObject({ HostConfig: { PortBindings: { '7777/tcp': own, '7777/udp': own } } })
  })

  it('uses the image’s command when the template has none', () => {
    const { body } = bodyOf({ command: [] })
    expect(body).not.toHaveProperty('Entrypoint')
    expect(body).not.toHaveProperty('Cmd')
  })

  it('resolves host.docker.internal when the heartbeat endpoint uses it', () => {
    expect(bodyOf({}, {}, 'host.docker.internal:56001').body).toMatchObject({
      HostConfig: { ExtraHosts: ['host.docker.internal:host-gateway'] },
    })
    expect(bodyOf({}, {}, '10.0.0.4:56001').body).not.toHaveProperty('HostConfig.ExtraHosts')
  })

  it('has the settings given in the options, and the template’s pull policy', () => {
    const { body, pullPolicy } = bodyOf(
      { imagePullPolicy: 'Never' },
      {
        networks: ['games', 'metrics'],
        labels: { team: 'red' },
        capabilities: { add: ['SYS_NICE'], drop: ['ALL'] },
        log: { driver: 'journald', options: { tag: 'game' } },
        bindAddress: '203.0.113.7',
        pullPolicy: 'Always',
        init: false,
      },
    )
    expect(pullPolicy).toBe('Never')
    expect(body).toMatchObject({
      Labels: { team: 'red', 'gamekeeper.fleet': 'f1' },
      HostConfig: {
        NetworkMode: 'games',
        CapAdd: ['SYS_NICE'],
        CapDrop: ['ALL'],
        LogConfig: { Type: 'journald', Config: { tag: 'game' } },
        PortBindings: { '7777/tcp': [{ HostIp: '203.0.113.7', HostPort: '10001' }] },
        Init: false,
      },
    })
  })
})

describe('checkForDocker', () => {
  it.each([
    [{ image: 'Arena:1' }, 'image'],
    [{ image: 'arena 1' }, 'image'],
    [{ imagePullPolicy: 'Sometimes' }, 'imagePullPolicy'],
    [{ workingDir: 'game' }, 'workingDir'],
    [
      {
        ports: [
          { containerPort: 1, protocol: 'TCP' },
          { containerPort: 2, protocol: 'SCTP' },
        ],
      },
      'ports[1].protocol',
    ],
    [{ resources: { limits: { memory: '5Mi' } } }, 'resources.limits.memory'],
    [{ resources: { limits: { memory: '9Ei' } } }, 'resources.limits.memory'],
    [{ resources: { limits: { cpu: '1m' } } }, 'resources.limits.cpu'],
  ])('rejects %j, naming %s', (container, field) => {
    const { template } = specOf('true', { container })
    expect(() => checkForDocker({ template })).toThrow(`spec.template.spec.containers[0].${field} must be`)
  })

  it('accepts a template that Docker supports', () => {
    const container = { image: 'arena', resources: { limits: { cpu: 2, memory: '1e9' } }, workingDir: '/' }
    expect(() => checkForDocker(specOf('true', { container }))).not.toThrow()
  })
})

describe('options', () => {
  it.each<[DockerBackendOptions & Record<string, unknown>, string]>([
    [{ port: 1 }, 'dockerBackend: unknown option port; did you mean portRange?'],
    [{ fleet: 'Red Team' }, 'dockerBackend: fleet must be at most 40 lower-case letters'],
    [{ portRange: '2-1' }, 'dockerBackend: portRange must be'],
    [{ networks: ['host'] }, 'dockerBackend: networks must be networks that can publish ports, but is "host"'],
    [{ labels: { 'gamekeeper.uid': '1' } }, 'dockerBackend: labels must not begin with gamekeeper.'],
    [{ readTimeoutMs: 0 }, 'dockerBackend: readTimeoutMs must be an integer ≥ 1, but is 0'],
  ])('%j is rejected', (options, message) => {
    expect(() => resolveDockerOptions(options)).toThrow(message)
  })

  it.each(['localhost', '127.0.0.256', '', '[::1]', 'fe80::1%eth0'])('bindAddress %j is rejected', (bindAddress) => {
    const message = 'dockerBackend: bindAddress must be an IP address'
    expect(() => resolveDockerOptions({ bindAddress })).toThrow(message)
  })

  it.each(['http://x y', 'play.example.com:80', '203.0.113.256', '-a', ''])(
    'publicAddress %j is rejected',
    (publicAddress) => {
      const message = 'dockerBackend: publicAddress must be a host name or an IP address'
      expect(() => resolveDockerOptions({ publicAddress })).toThrow(message)
    },
  )

  it.each(['203.0.113.7', '2001:db8::7', 'play.example.com', 'my_host', '1.example'])(
    'publicAddress %s is accepted',
    (publicAddress) => {
      expect(resolveDockerOptions({ publicAddress })).toMatchObject({ publicAddress })
    },
  )

  it.each(['0.0.0.0', '127.0.0.1', '::1'])('bindAddress %s is accepted', (bindAddress) => {
    expect(resolveDockerOptions({ bindAddress })).toMatchObject({ bindAddress })
  })

  it('the error for an invalid registryAuth does not contain the password', () => {
    const auth: unknown = { username: 'amie', password: ['s3cret'] }
    const options: unknown = { registryAuth: { 'ghcr.io': auth } }
    expect(() => resolveDockerOptions(Object.assign({}, options))).toThrow(/registryAuth\.ghcr\.io(?!.*s3cret)/)
  })
})

it.each([
  ['arena', { repository: 'arena', tag: 'latest', registry: 'docker.io' }],
  ['studio/arena:1.2', { repository: 'studio/arena', tag: '1.2', registry: 'docker.io' }],
  ['ghcr.io/studio/arena', { repository: 'ghcr.io/studio/arena', tag: 'latest', registry: 'ghcr.io' }],
  ['127.0.0.1:5000/arena:1', { repository: '127.0.0.1:5000/arena', tag: '1', registry: '127.0.0.1:5000' }],
  [
    `localhost/arena@sha256:${'a'.repeat(64)}`,
    { repository: 'localhost/arena', tag: `sha256:${'a'.repeat(64)}`, registry: 'localhost' },
  ],
  ['', undefined],
  ['arena:', undefined],
  ['../arena', undefined],
  ['arena?tag=1', undefined],
])('image name %j is parsed as Docker parses it', (image, name) => {
  expect(readImageName(image)).toEqual(name)
})

it.each([
  ['2', 2],
  ['0.5', 0.5],
  ['500m', 0.5],
  ['256Mi', 256 * 2 ** 20],
  ['1e3', 1000],
  ['1G', 1e9],
  ['1x', NaN],
])('quantity %s is parsed as %d', (text, amount) => {
  expect(quantityOf(text)).toBe(amount)
})

it('linesOf yields whole lines wherever chunks are split', async () => {
  const bytes = Buffer.from('añb\r\nc\n\nd')
  for (let size = 1; size <= bytes.length; size++) {
    const chunks = Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) =>
      bytes.subarray(i * size, (i + 1) * size),
    )
    const lines: string[] = []
    for await (const line of linesOf(Readable.from(chunks))) lines.push(line)
    expect(lines).toEqual(['añb', 'c', '', 'd'])
  }
})

it('framesOf yields whole frames wherever chunks are split', async () => {
  const frame = (from: number, text: string) => {
    const head = Buffer.alloc(8)
    head[0] = from
    head.writeUInt32BE(Buffer.byteLength(text), 4)
    return Buffer.concat([head, Buffer.from(text)])
  }
  const bytes = Buffer.concat([frame(1, 'one\n'), frame(2, ''), frame(2, 'two\n')])
  for (let size = 1; size <= bytes.length; size++) {
    const chunks = Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) =>
      bytes.subarray(i * size, (i + 1) * size),
    )
    const frames: (readonly [number, string])[] = []
    for await (const { from, payload } of framesOf(Readable.from(chunks))) frames.push([from, payload.toString()])
    expect(frames).toEqual([
      [1, 'one\n'],
      [2, ''],
      [2, 'two\n'],
    ])
  }
})
