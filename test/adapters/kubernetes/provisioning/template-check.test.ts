/** Misspelled fields of a pod template, as API servers before and since 1.25 report them. */
import { createFleet } from 'gamekeeper'
import { describe, expect, it, onTestFinished } from 'vitest'
import { checkTemplate, droppedFields } from '../../../../adapters/kubernetes/provisioning/template-check.js'
import { silentLogger } from '../../../../src/contracts/logger.js'
import { defaultApiGroup } from '../../../../src/rules/model/wire.js'
import { until } from '../../../e2e/until.js'
import { kubectl, kubectlWith } from '../support/cluster.js'
import { describeOnCluster } from '../support/describe-on-cluster.js'
import { apiOf, configFor, fakeApiServer, respond } from '../support/fake-api-server.js'
import { buildManifest } from '../support/fleets.js'
import { ownNamespace } from '../support/own-namespace.js'
import { open } from '../support/support.js'

const openAt = (namespace: string) => open(namespace, { apiGroup: defaultApiGroup, logger: silentLogger })

const template = { spec: { nodeSelectr: { pool: 'games' }, containers: [{ name: 'game', image: 'arena:1' }] } }

const two = { c: [{ name: 'a' }, { name: 'b', imag: 'x' }] }
const injected = { c: [{ name: 'sidecar' }, { name: 'a' }, { name: 'b' }] }

const mounts = [
  { name: 'data', mountPath: '/a', subPath: 'x' },
  { name: 'data', mountPath: '/b', readOnly: true },
]
const env = [
  { name: 'A', value: '1' },
  { name: 'A', valueFrom: { fieldRef: { fieldPath: 'x' } } },
]
const toleration = { key: 'games', value: 'yes' }

describe('what has not come back', () => {
  it.each([
    ['nothing of a volume that is mounted twice', { mounts }, { mounts }, []],
    ['nothing of a variable that is set twice', { env }, { env: structuredClone(env) }, []],
    [
      'a field of the second mount',
      {
        m: [
          { name: 'd', a: 1 },
          { name: 'd', b: 1 },
        ],
      },
      { m: [{ name: 'd', a: 1 }, { name: 'd' }] },
      ['spec.m[1].b'],
    ],
    [
      'nothing that can be told, with a mount more',
      { mounts },
      { mounts: [{ name: 'data', mountPath: '/c' }, ...mounts] },
      [],
    ],
    [
      'nothing that can be told, in a longer list without names',
      { t: [toleration] },
      { t: [{ key: 'x' }, toleration] },
      [],
    ],
    [
      'a limit, which has no known names and so was removed by a webhook',
      { limits: { cpu: 1, memory: 1 } },
      { limits: { memory: 1 } },
      [],
    ],
    ['a field of a container whose image was rewritten', { image: 'a', imag: 'b' }, { image: 'mirror/a' }, []],
    ['nothing', { a: 1, b: { c: [{ d: 1 }] } }, { a: 1, b: { c: [{ d: 1 }] }, e: 2 }, []],
    ['a field', { a: 1, nodeSelectr: { x: 'y' } }, { a: 1 }, ['spec.nodeSelectr']],
    ['a field in a list', { c: [{ name: 'g', imag: 'x' }] }, { c: [{ name: 'g' }] }, ['spec.c[0].imag']],
    ['a field of the second, behind one that was put first', two, injected, ['spec.c[1].imag']],
    ['what is empty', { a: '', b: [], c: {}, d: false, e: null, f: { g: {} } }, {}, []],
    ['a value that was normalized', { cpu: '1000m' }, { cpu: '1' }, []],
  ])('%s', (_, sent, returned, expected) => {
    expect(droppedFields(sent, returned, 'spec')).toEqual(expected)
  })
})

describe('an API server', () => {
  // Written in the form of API servers from 1.25 on, which the cluster of these tests may be older than. Not recorded from one.
  const strict = {
    ...{ kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Failure', reason: 'BadRequest', code: 400 },
    message: 'Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field "spec.nodeSelectr"',
  }
  const forbidden = { ...strict, reason: 'Forbidden', code: 403, message: 'exceeded quota' }

  async function checkedBy(status: number, body: unknown, version?: object) {
    const server = await fakeApiServer((_, response, { pathname }) => {
      if (pathname !== '/version') return respond(response, status, body)
      respond(response, version ? 200 : 503, version ?? {})
    })
    const outcome = checkTemplate({ api: apiOf(configFor(server.url)), logger: silentLogger }, 'games', template)
    return { server, outcome }
  }

  const { nodeSelectr: _, ...kept } = template.spec
  const withoutIt = {
    ...{ kind: 'Pod', apiVersion: 'v1', metadata: { name: 'x' } },
    spec: { ...kept, restartPolicy: 'Never' },
  }

  it.each([
    { major: '1', minor: '20' },
    { major: '1', minor: '24+' },
  ])('of version %o, which drops unknown fields, has what it returns compared', async (version) => {
    const { outcome } = await checkedBy(201, withoutIt, version)
    await expect(outcome).resolves.toEqual({
      isDropped: true,
      message: expect.stringMatching(/^spec\.template\.spec\.nodeSelectr: .*a webhook/),
    })
  })

  it.each([
    { major: '1', minor: '25' },
    { major: '1', minor: '31+' },
    { major: '2', minor: '0' },
    { major: 'x' },
    undefined,
  ])('of version %o refuses no template because of what a webhook has removed', async (version) => {
    await expect((await checkedBy(201, withoutIt, version)).outcome).resolves.toBeUndefined()
  })

  it('that is strict names the fields itself', async () => {
    const { server, outcome } = await checkedBy(400, strict)
    const message = 'spec.template.spec.nodeSelectr: pods have no such field in this cluster'
    await expect(outcome).resolves.toEqual({ isDropped: true, message })
    expect(server.requests).toEqual(['POST /api/v1/namespaces/games/pods?dryRun=All&fieldValidation=Strict'])
  })

  const invalid = {
    ...strict,
    ...{
      reason: 'Invalid',
      code: 422,
      message: 'Pod "template-check-x" is invalid: spec.tolerations[0]: Invalid value',
    },
    details: {
      name: 'template-check-x',
      causes: [
        { reason: 'FieldValueInvalid', field: 'spec.tolerations[0].effect', message: 'Invalid value: "x"' },
        { reason: 'FieldValueRequired', field: 'metadata.labels', message: 'Required value' },
        { reason: 'FieldValueInvalid', field: 'metadata.generateName', message: 'Invalid value: "y"' },
      ],
    },
  }

  it('that finds invalid fields has the template refused with all of them', async () => {
    const message =
      'spec.template.spec.tolerations[0].effect: Invalid value: "x"; spec.template.metadata.labels: Required value'
    await expect((await checkedBy(422, invalid)).outcome).resolves.toEqual({ isDropped: false, message })
  })

  it('that refuses a value which reads like the name of an unknown field has the template refused all the same', async () => {
    const cause = { field: 'metadata.labels', message: 'Invalid value: "pods have no such field in this cluster"' }
    const body = { ...invalid, details: { causes: [cause] } }
    await expect((await checkedBy(422, body)).outcome).resolves.toMatchObject({ isDropped: false })
  })

  it.each([
    [
      'is no pod',
      { ...strict, message: 'Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal string' },
    ],
    [
      'is no pod, in the words of old servers',
      {
        ...strict,
        message:
          'Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal string, error found in #10 byte of ...|x|..., bigger context ...|x|...\n|...',
      },
    ],
  ])('that says the template %s has it refused', async (_, body) => {
    const message = 'spec.template is no pod template that this cluster reads: json: cannot unmarshal string'
    await expect((await checkedBy(400, body)).outcome).resolves.toEqual({ isDropped: false, message })
  })

  it.each([
    [422, { ...invalid, details: undefined, message: 'admission webhook "x" denied the request' }],
    [403, forbidden],
    [400, { ...strict, message: 'admission webhook "x" does not support dry run' }],
  ])('that answers %i for another reason refuses no template', async (status, body) => {
    await expect((await checkedBy(status, body)).outcome).resolves.toBeUndefined()
  })
})

describeOnCluster('a build whose pods the cluster refuses for good', () => {
  const space = ownNamespace()
  const game = { name: 'game', image: 'arena:1' }

  it.each<[string, object, string]>([
    [
      'a container without a name',
      { containers: [{ image: 'arena:1' }] },
      'spec.template.spec.containers[0].name must be',
    ],
    [
      'two containers with one name',
      { containers: [game, game] },
      'spec.template.spec.containers[1].name must differ from the name of every other container',
    ],
    [
      'a name of a port that is too long',
      { containers: [{ ...game, ports: [{ name: 'a-very-long-port-name', containerPort: 7777 }] }] },
      'spec.template.spec.containers[0].ports[0].name must have at most 15',
    ],
    [
      'an image that no kubelet pulls',
      { containers: [{ ...game, image: 'Arena Game' }] },
      'spec.template.spec.containers[0].image must be an image name',
    ],
    [
      'half a byte of memory',
      { containers: [{ ...game, resources: { limits: { memory: '512m' } } }] },
      'spec.template.spec.containers[0].resources.limits.memory must be at least 1Mi, but is "512m"',
    ],
    [
      'a user that cannot be',
      { containers: [{ ...game, securityContext: { runAsUser: -1 } }] },
      'spec.template.spec.containers[0].securityContext.runAsUser: Invalid value: -1',
    ],
    [
      'a mount of a volume that is not there',
      { containers: [{ ...game, volumeMounts: [{ name: 'maps', mountPath: '/maps' }] }] },
      'spec.template.spec.containers[0].volumeMounts[0].name: Not found: "maps"',
    ],
    [
      'a field of another type',
      { containers: [game], tolerations: 'all' },
      'spec.template is no pod template that this cluster reads: ',
    ],
  ])('is refused for %s, when it is created or edited', { timeout: 300_000 }, async (_, pod, message) => {
    const backend = openAt(space())
    const fleet = await createFleet({ backend, agent: { external: '192.0.2.1:56001' }, logger: silentLogger })
    onTestFinished(() => fleet.close())
    const ref = { namespace: space(), name: 'refused' }
    const good = {
      buildID: 'refused',
      standingBy: 0,
      max: 1,
      portsToExpose: [7777],
      template: { spec: { containers: [game] } },
    }
    const refusal = { code: 'invalid', message: expect.stringContaining(message) }
    const bad = { ...good, template: { spec: pod } }
    await until('it leads', () => fleet.builds.list().then(() => true))
    await expect(fleet.builds.create({ metadata: ref, spec: bad })).rejects.toMatchObject(refusal)
    await fleet.builds.create({ metadata: ref, spec: good })
    await expect(fleet.builds.apply({ metadata: ref, spec: bad })).rejects.toMatchObject(refusal)
    await fleet.builds.delete(ref)
  })

  it('is warned of by an Event, or is Invalid, if kubectl applies it', { timeout: 300_000 }, async () => {
    const backend = openAt(space())
    const fleet = await createFleet({ backend, agent: { external: '192.0.2.1:56001' }, logger: silentLogger })
    onTestFinished(() => fleet.close())
    const apply = (name: string, container: object) => {
      const spec = { standingBy: 1, max: 1, template: { spec: { containers: [container] } } }
      return kubectlWith(buildManifest(space(), name, spec), 'apply', '-f', '-')
    }
    await apply('unnamed', { image: 'arena:1' })
    const ref = { namespace: space(), name: 'unnamed' }
    const { status } = await until('the build is Invalid', async () => {
      const found = await fleet.builds.get(ref).catch(() => undefined)
      return (found?.status.conditions ?? []).some(({ type }) => type === 'Invalid') && found
    })
    expect(status.conditions).toMatchObject([
      {
        type: 'Invalid',
        message: expect.stringMatching(/^spec\.template\.spec\.containers\[0\]\.name must be a name/),
      },
    ])
    expect(status).toMatchObject({ currentPending: 0, crashesCount: 0 })

    await apply('negative', { ...game, securityContext: { runAsUser: -1 } })
    const output = 'jsonpath={range .items[*]}{.reason} {.message}{"\\n"}{end}'
    const warning = await until('an Event says so', async () => {
      const events = await kubectl('-n', space(), 'get', 'events', '-o', output)
      return events.split('\n').find((line) => line.startsWith('TemplateInvalid'))
    })
    expect(warning).toMatch(/securityContext\.runAsUser: Invalid value: -1: .*; the cluster refuses its pods$/)
  })

  it(
    'is allowed what only the pod of a server can have: host ports on the host network, mounts of the SDK',
    { timeout: 300_000 },
    async () => {
      const backend = openAt(space())
      const fleet = await createFleet({ backend, agent: { external: '192.0.2.1:56001' }, logger: silentLogger })
      onTestFinished(() => fleet.close())
      const sidecar = {
        ...{ name: 'logs', image: 'logs:1' },
        volumeMounts: [{ name: 'gamekeeper-logs', mountPath: '/read' }],
      }
      const ports = [{ containerPort: 7777, hostPort: 9999 }]
      const pod = { hostNetwork: true, containers: [{ ...game, ports }, sidecar] }
      const spec = { buildID: 'allowed', standingBy: 0, max: 1, portsToExpose: [7777], template: { spec: pod } }
      await until('it leads', () => fleet.builds.list().then(() => true))
      const { metadata } = await fleet.builds.create({ metadata: { namespace: space(), name: 'allowed' }, spec })
      await fleet.builds.delete(metadata)
    },
  )
})

describeOnCluster('a build with a field that pods do not have', () => {
  const space = ownNamespace()

  it(
    'is refused when it is created or edited through the fleet, and no pod is created',
    { timeout: 300_000 },
    async () => {
      const backend = openAt(space())
      const fleet = await createFleet({ backend, agent: { external: '192.0.2.1:56001' }, logger: silentLogger })
      onTestFinished(() => fleet.close())
      const ref = { namespace: space(), name: 'arena' }
      const spec = { buildID: 'checked', standingBy: 0, max: 1, portsToExpose: [7777] }
      const { nodeSelectr: _, ...pod } = template.spec
      await until('it leads', () => fleet.builds.list().then(() => true))
      const refusal = { code: 'invalid', message: expect.stringContaining('spec.template.spec.nodeSelectr') }
      await expect(fleet.builds.create({ metadata: ref, spec: { ...spec, template } })).rejects.toMatchObject(refusal)
      await fleet.builds.create({ metadata: ref, spec: { ...spec, template: { spec: pod } } })
      await expect(fleet.builds.update(ref, { ...spec, template })).rejects.toMatchObject(refusal)
      expect((await fleet.builds.get(ref)).spec.template).toEqual({ spec: pod })
    },
  )

  it(
    'is warned of once by an Event if kubectl applies it, and the build is not refused',
    { timeout: 300_000 },
    async () => {
      const backend = openAt(space())
      const fleet = await createFleet({ backend, agent: { external: '192.0.2.1:56001' }, logger: silentLogger })
      onTestFinished(() => fleet.close())
      const apply = (max: number) =>
        kubectlWith(buildManifest(space(), 'applied', { standingBy: 0, max, template }), 'apply', '-f', '-')
      await apply(1)
      const warnings = async () => {
        const text = await kubectl(
          '-n',
          space(),
          'get',
          'events',
          '-o',
          'jsonpath={range .items[*]}{.reason} {.message}{"\\n"}{end}',
        )
        return text.split('\n').filter((line) => line.startsWith('TemplateFieldsUnknown'))
      }
      const [warning] = await until('an Event says so', async () => {
        const found = await warnings()
        return found.length > 0 && found
      })
      expect(warning).toContain('spec.template.spec.nodeSelectr: pods have no such field in this cluster')
      await apply(2)
      const ref = { namespace: space(), name: 'applied' }
      await until('the edit is seen', async () => (await fleet.builds.get(ref)).spec.max === 2)
      expect((await fleet.builds.get(ref)).status.conditions ?? []).toEqual([])
      expect(await warnings()).toHaveLength(1)
    },
  )
})
