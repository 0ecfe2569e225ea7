/** Mistakes in options that a compiler would find: each gives an error that names the option and says how to mend it. */
import * as root from 'gamekeeper'
import { createFleet, FleetError, type FleetOptions } from 'gamekeeper'
import * as clients from 'gamekeeper/client'
import * as dashboard from 'gamekeeper/dashboard'
import * as docker from 'gamekeeper/docker'
import * as http from 'gamekeeper/http'
import * as kubernetes from 'gamekeeper/kubernetes'
import * as memory from 'gamekeeper/memory'
import * as metrics from 'gamekeeper/metrics'
import * as processes from 'gamekeeper/process'
import * as tracing from 'gamekeeper/tracing'
import { fleetClient } from 'gamekeeper/client'
import {
  agentListener,
  allocationRoutes,
  fleetRoutes,
  koaMiddleware,
  managementRoutes,
  observationRoutes,
  perClientRateLimit,
  serve,
  verifyWebhook,
  webhook,
} from 'gamekeeper/http'
import { kubernetesBackend } from 'gamekeeper/kubernetes'
import { memoryBackend } from 'gamekeeper/memory'
import { fleetMetrics } from 'gamekeeper/metrics'
import { processBackend } from 'gamekeeper/process'
import { start } from 'gamekeeper/sdk'
import { tracedFleet } from 'gamekeeper/tracing'
import { afterAll, describe, expect, it } from 'vitest'
import { closestName } from '../../src/rules/validation/closest-name.js'

const fleet = await createFleet({ backend: memoryBackend() })
afterAll(() => fleet.close())

/** Hides the type, as a caller without a compiler does. */
const plain = (value: unknown) => value as never
const client = fleetClient({ url: 'http://127.0.0.1:1' })
const request = { sessionID: '9a6b2f0e-0000-4000-8000-000000000000', buildID: 'arena' }
const authorise = () => false
const metadata = { name: 'arena' }
const spec = { buildID: 'arena', standingBy: 0, max: 1, run: {} }
await fleet.builds.create({ metadata: { name: 'lobby' }, spec: { ...spec, buildID: 'lobby' } })

describe('the mistake', () => {
  it.each<[string, () => unknown, string]>([
    [
      'createFleet()',
      () => createFleet(plain(undefined)),
      'createFleet takes an object, such as { backend }, but got absent',
    ],
    [
      'createFleet({})',
      () => createFleet(plain({})),
      'createFleet: backend is missing: it must be a backend, such as processBackend()',
    ],
    [
      'backend: processBackend',
      () => createFleet({ backend: plain(processBackend) }),
      'createFleet: backend must be a backend, such as processBackend(), but is a function; call it',
    ],
    [
      'agent: false',
      () => createFleet({ backend: memoryBackend(), agent: plain(false) }),
      'createFleet: agent must be an object, such as { port: 56001 }, but is false',
    ],
    [
      'agent: { prot }',
      () => createFleet({ backend: memoryBackend(), agent: plain({ prot: 1 }) }),
      'createFleet: agent: unknown option prot; did you mean port?',
    ],
    [
      'store without await',
      () => createFleet({ backend: memoryBackend(), store: plain(Promise.resolve()) }),
      'createFleet: store must be a store, such as memoryStore(), but is a promise; await it',
    ],
    [
      'logger: console.log',
      () => createFleet({ backend: memoryBackend(), logger: plain(console.log) }),
      'createFleet: logger must be a logger such as pino, or false, but is a function; call it',
    ],
    [
      'limit',
      () => createFleet({ backend: memoryBackend(), limit: {} } as FleetOptions),
      'createFleet: unknown option limit; did you mean limits?',
    ],
    [
      'limits: { silentMs }',
      () => createFleet({ backend: memoryBackend(), limits: plain({ silentMs: 1 }) }),
      'limits.silentMs does not exist; did you mean silenceMs?',
    ],
    ['serve(fleet)', () => serve(plain(fleet)), 'serve: fleet is missing: it must be a fleet from createFleet()'],
    [
      'serve({ authorise })',
      () => serve(plain({ fleet, authorise })),
      'serve: unknown option authorise; did you mean authorize?',
    ],
    [
      'serve({ management: { prot } })',
      () => serve(plain({ fleet, management: { prot: 1 } })),
      'serve: management: unknown option prot; did you mean port?',
    ],
    [
      'serve on every interface without authentication',
      () => serve({ fleet, management: { host: '0.0.0.0', port: 0 }, allocation: { port: 0 } }),
      'serve: management.host 0.0.0.0 would let anyone who can reach this machine allocate game servers and end matches: set authorize, or tls with ca for client certificates, or insecure: true if a proxy in front authenticates callers',
    ],
    [
      'allocationRoutes({ authorise })',
      () => allocationRoutes(fleet, plain({ authorise })),
      'allocationRoutes: unknown option authorise; did you mean authorize?',
    ],
    [
      'managementRoutes({ authorize: true })',
      () => managementRoutes(fleet, plain({ authorize: true })),
      'managementRoutes: authorize must be a function, but is true',
    ],
    [
      'managementRoutes({ events: { maxReader } })',
      () => managementRoutes(fleet, plain({ events: { maxReader: 1 } })),
      'events: unknown option maxReader; did you mean maxReaders?',
    ],
    [
      'fleetRoutes({ allowedOrigin })',
      () => fleetRoutes(fleet, plain({ allowedOrigin: '*' })),
      'fleetRoutes: unknown option allowedOrigin; did you mean allowedOrigins?',
    ],
    [
      'fleetRoutes({ allowedOrigins: "*" })',
      () => fleetRoutes(fleet, plain({ allowedOrigins: '*' })),
      'fleetRoutes: allowedOrigins must be an array of strings, but is "*"',
    ],
    [
      'observationRoutes({ metrics: fleetMetrics })',
      () => observationRoutes(fleet, plain({ metrics: fleetMetrics })),
      'observationRoutes: metrics must be a source of metrics, such as fleetMetrics(fleet), but is a function; call it',
    ],
    [
      'fleetMetrics({ registery })',
      () => fleetMetrics(fleet, plain({ registery: {} })),
      'fleetMetrics: unknown option registery; did you mean registry?',
    ],
    [
      'tracedFleet({ tracerProvider: {} })',
      () => tracedFleet(fleet, plain({ tracerProvider: {} })),
      'tracedFleet: tracerProvider must be a TracerProvider, but is {}',
    ],
    [
      'fleetRoutes()',
      () => fleetRoutes(plain(undefined)),
      'fleetRoutes takes a fleet, such as createFleet() resolves with, but got absent',
    ],
    [
      'fleetRoutes({ fleet })',
      () => fleetRoutes(plain({ fleet })),
      'fleetRoutes takes a fleet, such as createFleet() resolves with, but got an object that contains one: fleetRoutes(fleet)',
    ],
    [
      'fleetRoutes(createFleet(…))',
      () => fleetRoutes(plain(Promise.resolve(fleet))),
      'fleetRoutes takes a fleet, such as createFleet() resolves with, but got a promise; await it',
    ],
    [
      'koaMiddleware(fleet)',
      () => koaMiddleware(plain(fleet)),
      'koaMiddleware takes routes, such as fleetRoutes(fleet), but what it got has no match',
    ],
    [
      'agentListener({ authorise })',
      () => agentListener(fleet, plain({ authorise })),
      'agentListener: unknown option authorise; did you mean authorize?',
    ],
    [
      'perClientRateLimit({ perMinute })',
      () => perClientRateLimit(plain({ perMinute: 1 })),
      'perClientRateLimit: perSecond is missing: it must be a number',
    ],
    [
      'builds.get()',
      () => fleet.builds.get(plain(undefined)),
      'expected a name or { namespace, name }, but got absent',
    ],
    [
      'builds.apply()',
      () => fleet.builds.apply(plain(undefined)),
      'the build must be a GameServerBuild object, but is absent',
    ],
    [
      'builds.apply(spec)',
      () => fleet.builds.apply(plain(spec)),
      'metadata must be an object with a name, but is absent; also spec must be an object, but is absent',
    ],
    [
      'builds.apply(…, { signl })',
      () => fleet.builds.apply(plain({ metadata, spec }), plain({ signl: undefined })),
      'builds.apply: unknown option signl; did you mean signal?',
    ],
    [
      'client.builds.apply()',
      () => client.builds.apply(plain(undefined)),
      'builds.apply takes a build with metadata and spec',
    ],
    [
      'builds.update with a number',
      () => fleet.builds.update('lobby', plain(3)),
      'the change must be an object, but is 3',
    ],
    [
      'builds.update({ standingby })',
      () => fleet.builds.update('lobby', plain({ standingby: 3 })),
      'spec.standingby is not allowed; did you mean standingBy?',
    ],
    [
      'builds.update({ buildID })',
      () => fleet.builds.update('lobby', plain({ buildID: 'b' })),
      'spec.buildID cannot be changed; create another build',
    ],
    [
      'builds.update({ run: { port } })',
      () => fleet.builds.update('lobby', plain({ run: { port: 7777 } })),
      'spec.run.port is not allowed; did you mean ports?',
    ],
    [
      'builds.create without run or template',
      () => fleet.builds.create(plain({ metadata, spec: { ...spec, run: undefined } })),
      'spec must have run, or template and portsToExpose',
    ],
    [
      'builds.create with run and template',
      () => fleet.builds.create(plain({ metadata, spec: { ...spec, template: {} } })),
      'spec.template is not allowed beside run; set run, or template and portsToExpose; also ' +
        'spec.template.spec must be an object with containers, but is absent',
    ],
    [
      'builds.create({ run: { comand } })',
      () => fleet.builds.create(plain({ metadata, spec: { ...spec, run: { comand: [] } } })),
      'spec.run.comand is not allowed; did you mean command?',
    ],
    [
      'builds.create({ standby, run: { cmd } })',
      () => fleet.builds.create(plain({ metadata, spec: { ...spec, standby: 1, run: { ...spec.run, cmd: ['a'] } } })),
      'spec.standby is not allowed; did you mean standingBy?; also spec.run.cmd is not allowed; did you mean command?',
    ],
    [
      'builds.patch({ standby })',
      () => fleet.builds.patch('lobby', plain({ max: 1, standby: 1 })),
      'standby is not allowed; did you mean standingBy?',
    ],
    [
      'a port of run as in a template',
      () => fleet.builds.create(plain({ metadata, spec: { ...spec, run: { ports: [{ containerPort: 7777 }] } } })),
      'spec.run.ports[0].containerPort is not allowed; allowed fields are name, port, protocol; also ' +
        'spec.run.ports[0].port must be an integer from 1 to 65535, but is absent',
    ],
    ['allocate(7)', () => fleet.allocate(plain(7)), 'the request must be an allocation request object, but is 7'],
    [
      'allocate without a build',
      () => fleet.allocate(plain({ sessionID: 'a' })),
      'the request must have buildID, or select, or server',
    ],
    [
      'allocate({ body })',
      () => fleet.allocate(plain({ ...request, body: {} })),
      'body is not allowed; allowed fields are buildID, select, server, order, sessionID, sessionCookie, ' +
        'initialPlayers, labels, annotations, counters, lists',
    ],
    [
      'builds.patch(7)',
      () => fleet.builds.patch('lobby', plain(7)),
      'the change must be an object with standingBy, max or both, but is 7',
    ],
    [
      'sessions.join(7)',
      () => fleet.sessions.join(plain(7)),
      'the request must be an object with players and buildID or select, but is 7',
    ],
    [
      'sessions.withRoom(7)',
      () => fleet.sessions.withRoom(plain(7)),
      'the request must be an object with buildID or select, but is 7',
    ],
    ['sessions.get()', () => fleet.sessions.get(plain(undefined)), 'sessionID must be a string, but is absent'],
    [
      'sessions.get(…, { build })',
      () => fleet.sessions.get('a', plain({ build: 'b' })),
      'sessions.get: unknown option build; known options: signal',
    ],
    ['sessions.end(7)', () => fleet.sessions.end(plain(7)), 'sessionID must be a string, but is 7'],
    [
      'sessions.end(…, { reason })',
      () => fleet.sessions.end('a', plain({ reason: 'over' })),
      'sessions.end: unknown option reason; known options: signal, caller',
    ],
    [
      'sessions.list({ buildID })',
      () => fleet.sessions.list(plain({ buildID: 'a' })),
      'sessions.list: unknown option buildID; did you mean build?',
    ],
    [
      'client.sessions.list({ buildID })',
      () => client.sessions.list(plain({ buildID: 'a' })),
      'sessions.list: unknown option buildID; did you mean build?',
    ],
    [
      'client.sessions.end()',
      () => client.sessions.end(plain(undefined)),
      'an id or name must be a string other than "", . and .., but is absent',
    ],
    ['sessions.ofPlayer()', () => fleet.sessions.ofPlayer(plain(undefined)), 'player must be a string, but is absent'],
    [
      "allocationRoutes({ sessionIDs: 'uuid' })",
      () => allocationRoutes(fleet, plain({ sessionIDs: 'uuid' })),
      "allocationRoutes: sessionIDs must be 'guid' or 'any', but is \"uuid\"",
    ],
    [
      'serve({ sessionID })',
      () => serve(plain({ fleet, sessionID: 'guid' })),
      'serve: unknown option sessionID; did you mean sessionIDs?',
    ],
    [
      'allocate with a space at the end of the sessionID',
      () => fleet.allocate({ ...request, sessionID: 'match ' }),
      'sessionID must have only visible characters, and spaces between them, but has U+0020 at position 6',
    ],
    [
      'servers.list({ buildID })',
      () => fleet.servers.list(plain({ buildID: 'a' })),
      'servers.list: unknown option buildID; did you mean build?',
    ],
    [
      'servers.page({ continues })',
      () => fleet.servers.page(plain({ continues: 'a' })),
      'servers.page: unknown option continues; did you mean continue?',
    ],
    [
      'servers.all({ limits })',
      () => fleet.servers.all(plain({ limits: 1 })),
      'servers.all: unknown option limits; did you mean limit?',
    ],
    [
      'builds.all({ continue })',
      () => fleet.builds.all(plain({ continue: 'a' })),
      'builds.all: unknown option continue; known options: limit, signal',
    ],
    [
      'client.builds.page({ limt })',
      () => client.builds.page(plain({ limt: 1 })),
      'builds.page: unknown option limt; did you mean limit?',
    ],
    [
      'drain({ deadline })',
      () => fleet.drain(plain({ deadline: 1 })),
      'drain: unknown option deadline; did you mean deadlineMs?',
    ],
    [
      "on('Alocated')",
      () => fleet.on(plain('Alocated'), () => {}),
      'on: there is no event "Alocated"; did you mean Allocated?',
    ],
    [
      'on without a listener',
      () => fleet.on('Allocated', plain(undefined)),
      'on: the listener must be a function, but is absent',
    ],
    [
      'events({ since })',
      () => fleet.events(plain({ since: 1 })),
      'events: unknown option since; known options: from, last, to, types, signal',
    ],
    ['events({ last: -5 })', () => fleet.events({ last: -5 }), 'events: last must be a whole number from 0, but is -5'],
    [
      'events({ to: NaN })',
      () => fleet.events({ to: Number.NaN }),
      'events: to must be a whole number from 0, but is NaN',
    ],
    [
      'allocate(…, { wait })',
      () => fleet.allocate(request, plain({ wait: 1 })),
      'allocate: unknown option wait; did you mean waitMs?',
    ],
    [
      'client.allocate(…, { wait })',
      () => client.allocate(request, plain({ wait: 1 })),
      'allocate: unknown option wait; did you mean waitMs?',
    ],
    [
      'fleetClient({ uri })',
      () => fleetClient(plain({ uri: 'http://x' })),
      'fleetClient: unknown option uri; did you mean url?',
    ],
    [
      "webhook({ types: ['Alocated'] })",
      () => webhook(fleet, { url: 'http://x', secret: '0123456789abcdef', types: plain(['Alocated']) }),
      'webhook: types: there is no event "Alocated"; did you mean Allocated?',
    ],
    [
      'webhook without a secret',
      () => webhook(fleet, plain({ url: 'http://x' })),
      'webhook: secret is missing: it must be a string',
    ],
    [
      'verifyWebhook without a secret',
      () => verifyWebhook(plain({ headers: {}, body: '' })),
      'verifyWebhook: secret is missing: it must be a string or an array of strings',
    ],
    [
      'memoryBackend({ portRange }) that is no range',
      () => memoryBackend({ portRange: '31200' }),
      'memoryBackend: portRange must be two ports from 1 to 65535, lower first, like 10000-12000, but is "31200"',
    ],
    [
      'memoryBackend({ scripts })',
      () => memoryBackend(plain({ scripts: 'auto' })),
      'memoryBackend: unknown option scripts; did you mean script?',
    ],
    [
      'processBackend({ dir })',
      () => processBackend(plain({ dir: '.' })),
      'processBackend: unknown option dir; did you mean directory?',
    ],
    [
      'createFleet({ development })',
      () => createFleet(plain({ backend: memoryBackend(), development: true })),
      'createFleet: development is an option of processBackend: createFleet({ backend: processBackend({ development: true }) })',
    ],
    [
      'kubernetesBackend({ development })',
      () => kubernetesBackend(plain({ development: true })),
      'kubernetesBackend: development is an option of processBackend, whose servers can end with the host',
    ],
    [
      "processBackend({ development: 'yes' })",
      () => processBackend(plain({ development: 'yes' })),
      'processBackend: development must be true, false or { output }, but is "yes"',
    ],
    [
      'start({ onTerminated })',
      () => start(plain({ onTerminated: () => {} })),
      'start: unknown option onTerminated; did you mean onTerminate?',
    ],
    ['start({ health: true })', () => start(plain({ health: true })), 'start: health must be a function, but is true'],
  ])('%s', async (_, make, message) => {
    // Async, so that a rejection counts as well.
    const attempt = async () => make()
    await expect(attempt()).rejects.toMatchObject({ name: 'FleetError', code: 'invalid', message })
  })
})

describe('what is allowed', () => {
  it('includes a port range as text, and options that are undefined', async () => {
    const backend = memoryBackend({ portRange: '31200-31250' })
    const second = await createFleet(plain({ backend, store: undefined }))
    await second.builds.create({
      metadata: { name: 'arena' },
      spec: {
        ...{ buildID: 'arena', standingBy: 1, max: 1, portsToExpose: [7777] },
        template: { spec: { containers: [{ name: 'game', image: 'arena:1' }] } },
      },
    })
    const { Ports } = await second.allocate(request, { waitMs: 10_000 })
    expect(Ports).toBe('7777:31200')
    await second.close()
  })

  it('includes a listener on every interface that authenticates callers, or that says insecure', async () => {
    for (const more of [{ authorize: () => true }, { insecure: true }]) {
      const listener = { host: '0.0.0.0', port: 0 }
      const served = await serve({ fleet, allocation: listener, management: listener, ...more })
      await served.close()
    }
  })
})

describe('the closest name', () => {
  it.each([
    ['authorise', ['authorize', 'rateLimit'], 'authorize'],
    ['WAITMS', ['waitMs', 'signal'], 'waitMs'],
    ['wait', ['waitMs', 'signal'], 'waitMs'],
    ['prot', ['port', 'host'], 'port'],
    ['players', ['sessionID', 'initialPlayers'], 'initialPlayers'],
    ['cmd', ['args', 'command'], 'command'],
    ['standby', ['max', 'standingBy'], 'standingBy'],
    ['IMG', ['image', 'command'], 'image'],
    ['st', ['standingBy'], undefined],
    ['sinceWhen', ['from', 'signal'], undefined],
    ['a', ['from', 'signal'], undefined],
    ['', ['from', 'signal'], undefined],
    ['x'.repeat(1_000_000), ['x'.repeat(1_000_001)], undefined],
  ])('to %.20s among %j is %s', (name, known, expected) => {
    expect(closestName(name, known)).toBe(expected)
  })
})

describe('every function that the package exports', () => {
  const parts = [root, clients, dashboard, docker, http, kubernetes, memory, metrics, processes, tracing]
  /** The first returns what it gets; the last is a class. */
  const others = ['defineBuild', 'FleetError']
  const functions = parts
    .flatMap((part) => Object.entries<unknown>(part))
    .flatMap(([name, value]) => (typeof value === 'function' && !others.includes(name) ? [[name, value] as const] : []))
    .filter(([name], index, all) => all.findIndex(([other]) => other === name) === index)

  it.each(functions)('%s answers a wrong argument with an error that names it', async (name, call) => {
    for (const args of [[], [null], [1], [{ fleet: 1 }], [[]], [() => 1]]) {
      const made: unknown = await new Promise((resolve) => resolve(Reflect.apply(call, undefined, args))).catch(
        (error: unknown) =>
          FleetError.is(error)
            ? undefined
            : Promise.reject(new Error(`${name}(${JSON.stringify(args[0])})`, { cause: error })),
      )
      if (typeof made === 'object' && made !== null && 'close' in made && typeof made.close === 'function')
        await made.close()
    }
  })
})
