/** The Helm chart, rendered by Helm: what it creates, what it refuses, and that its hosts are those of the manifest. */
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'
import { parseAllDocuments } from 'yaml'
import { isObject } from '../../src/rules/validation/problem.js'
import { read, root } from '../package/sources.js'
import { describeWith } from './with-program.js'

const run = promisify(execFile)
const chart = join(root, 'examples/kubernetes/chart')
const everything = join(root, 'test/examples/chart/everything.yaml')

interface Container {
  readonly env: readonly { readonly name: string }[]
  readonly [field: string]: unknown
}

interface Rule {
  readonly resources: readonly string[]
  readonly verbs: readonly string[]
  readonly resourceNames?: readonly string[]
}

interface PodSpec {
  readonly containers: readonly [Container]
  readonly securityContext?: object
}

/** What the tests read of an object. */
interface Manifest {
  readonly kind: string
  readonly apiVersion: string
  readonly version?: string
  readonly appVersion?: string
  readonly metadata: {
    readonly name: string
    readonly namespace: string
    readonly annotations?: Readonly<Record<string, string>>
  }
  readonly data?: Readonly<Record<string, string>>
  readonly rules?: readonly Rule[]
  readonly spec?: { readonly strategy?: object; readonly template?: { readonly spec: PodSpec } }
}

async function template(...args: readonly string[]): Promise<string> {
  const { stdout } = await run('helm', ['template', 'gamekeeper', chart, '--namespace', 'gamekeeper', ...args])
  return stdout
}

const objectsIn = (text: string): readonly Manifest[] => parseAllDocuments(text).map((document) => document.toJS())

async function rendered(...args: readonly string[]): Promise<readonly Manifest[]> {
  return objectsIn(await template(...args)).filter((each) => isObject(each))
}

const manifest = objectsIn(read('examples/kubernetes/gamekeeper.yaml'))
const pick = (objects: readonly Manifest[], kind: string) => objects.filter((each) => each.kind === kind)
const podOf = (objects: readonly Manifest[]) => pick(objects, 'Deployment')[0]?.spec?.template?.spec
const hostOf = (objects: readonly Manifest[]) => podOf(objects)?.containers[0]
const tokens = /^( {2}(?:allocate|read|manage): ).*$/gm

it('the example build and budget are created in the namespace of kubectl', () => {
  for (const file of ['arena', 'disruption-budget']) {
    const [{ metadata } = {}] = objectsIn(read(`examples/kubernetes/more/${file}.yaml`))
    expect(Object.keys(metadata ?? {}), file).toEqual(['name'])
  }
})

describeWith('helm')('the Helm chart', () => {
  it('passes the linter, with and without values', async () => {
    await run('helm', ['lint', '--strict', chart])
    await run('helm', ['lint', '--strict', chart, '--values', everything])
  })

  it('has the version of the package', () => {
    const [{ version, appVersion } = {}] = objectsIn(read('examples/kubernetes/chart/Chart.yaml'))
    const { version: expected } = JSON.parse(read('package.json'))
    expect([version, appVersion]).toEqual([expected, expected])
  })

  it('creates these objects without values', async () => {
    const text = (await template()).replaceAll(tokens, '$1(random)')
    await expect(text).toMatchFileSnapshot('chart/without-values.yaml')
  })

  it('creates these objects with every value', async () => {
    const text = await template('--values', everything)
    await expect(text).toMatchFileSnapshot('chart/every-value.yaml')
  })

  it('gives each role another random token, unless a Secret is named or there are none', async () => {
    const secrets = pick(await rendered(), 'Secret')
    const values = Object.values(secrets[0]?.data ?? {}).map((each) => Buffer.from(each, 'base64').toString())
    expect([secrets.length, new Set(values).size]).toEqual([1, 3])
    expect(values).toEqual(Array.from({ length: 3 }, () => expect.stringMatching(/^[A-Za-z0-9]{40}$/)))
    expect(pick(await rendered('--set', 'auth.secretName=mine'), 'Secret')).toEqual([])
    const insecure = await rendered('--set', 'auth.insecure=true')
    expect(pick(insecure, 'Secret')).toEqual([])
    expect(hostOf(insecure)).not.toHaveProperty('volumeMounts')
  })

  it('keeps the Service of the agent, whose address running games have, and nothing else', async () => {
    const kept = (objects: readonly Manifest[]) =>
      objects
        .filter(({ metadata }) => metadata.annotations?.['helm.sh/resource-policy'])
        .map(({ metadata }) => metadata.name)
    expect(kept(await rendered())).toEqual(['gamekeeper-agent'])
    expect(kept(await rendered('--set', 'agent.keep=false'))).toEqual([])
  })

  it('covers all namespaces with a ClusterRole if none is named', async () => {
    const objects = await rendered('--set', 'namespaces=null')
    expect(rightsOf(pick(objects, 'ClusterRole'))).toEqual(new Set([...gameRights(), 'list nodes', 'watch nodes']))
    expect(pick(objects, 'Role').map(({ metadata }) => metadata.namespace)).toEqual(['gamekeeper', 'gamekeeper'])
    expect(hostOf(objects)?.env.map(({ name }) => name)).not.toContain('NAMESPACES')
  })

  it.each(['x'.repeat(53), `${'x'.repeat(51)}-y`, `gamekeeper-${'x'.repeat(42)}`])(
    'gives its objects valid names for the release %s',
    async (release) => {
      const { stdout } = await run('helm', ['template', release, chart, '--namespace', 'gamekeeper'])
      const objects = objectsIn(stdout).filter((each) => isObject(each))
      const names = pick(objects, 'Service').map(({ metadata }) => metadata.name)
      expect(names.length).toBeGreaterThan(2)
      expect(names.filter((name) => !/^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$/.test(name))).toEqual([])
      const hosts = pick(objects, 'Deployment')[0]?.metadata.name ?? ''
      expect(names.every((name) => name.startsWith(`${hosts}-`))).toBe(true)
    },
  )

  it('gives its hosts the rights of the manifest, their probes, their resources and their ports', async () => {
    const objects = await rendered()
    const rights = (all: readonly Manifest[]) => rightsOf([...pick(all, 'Role'), ...pick(all, 'ClusterRole')])
    expect(rights(objects)).toEqual(rights(manifest))
    for (const all of [objects, manifest]) {
      expect(podOf(all)?.securityContext).toMatchObject({
        runAsNonRoot: true,
        seccompProfile: { type: 'RuntimeDefault' },
      })
    }
    for (const all of [objects, manifest]) {
      const [deployment] = pick(all, 'Deployment')
      expect(deployment?.spec?.strategy).toEqual({ rollingUpdate: { maxUnavailable: 0, maxSurge: 1 } })
      expect(hostOf(all)?.['readinessProbe']).toMatchObject({ httpGet: { path: '/readyz', port: 'health' } })
    }
    for (const field of ['readinessProbe', 'livenessProbe', 'resources', 'ports', 'securityContext']) {
      expect(hostOf(objects)?.[field], field).toEqual(hostOf(manifest)?.[field])
    }
  })

  it('lets its hosts read no Secret but the key', async () => {
    for (const all of [await rendered(), await rendered('--set', 'namespaces=null'), manifest]) {
      const read = [...rightsOf([...pick(all, 'Role'), ...pick(all, 'ClusterRole')])].filter((right) =>
        /^(get|list|watch) secrets/.test(right),
      )
      expect(read.toSorted()).toEqual(['get', 'list', 'watch'].map((verb) => `${verb} secrets gamekeeper-key`))
    }
  })

  it('leaves the seccomp profile out where its value is null, and keeps the rest of the security context', async () => {
    const objects = await rendered('--set', 'podSecurityContext.seccompProfile=null')
    expect(podOf(objects)?.securityContext).toEqual({ runAsNonRoot: true, runAsUser: 1000, fsGroup: 1000 })
  })

  it.each([
    ['portRange=10000', /portRange/],
    ['replicas=0', /replicas/],
    ['replica=2', /replica/],
    ['antiAffinity=yes', /antiAffinity/],
    ['auth.keys={admin}', /auth\.keys/],
    ['env.LEVEL=5', /env\.LEVEL/],
    ['namespaces={Games}', /namespaces/],
    ['tls.clientCertificates=true', /tls/],
    ['ingress.enabled=true', /ingress/],
    ['ingress.enabled=true,ingress.allocationHost=a.example,auth.insecure=true', /would let everyone manage the fleet/],
  ])('refuses %s', async (set, message) => {
    await expect(template('--set', set)).rejects.toThrow(message)
  })
})

/** The right to do what with what, for example `list pods`. */
function rightsOf(roles: readonly Manifest[]): ReadonlySet<string> {
  const rules = roles.flatMap(({ rules: granted = [] }) => granted)
  return new Set(
    rules.flatMap(({ resources, verbs, resourceNames = [] }) =>
      verbs.flatMap((verb) => resources.map((of) => [verb, of, ...resourceNames].join(' '))),
    ),
  )
}

/** The rights of the manifest in the namespace of games, without those that the fleet has in its system namespace only. */
function gameRights(): readonly string[] {
  const roles = pick(manifest, 'Role').filter(({ metadata }) => metadata.name === 'gamekeeper-games')
  return [...rightsOf(roles)].filter((right) => !/ leases$| gameserverjournals$| gamekeeper-key$/.test(right))
}
