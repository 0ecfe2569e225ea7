/** Which template fields each backend supports, skips and refuses. */
import { test } from '@fast-check/vitest'
import { describe, expect, it } from 'vitest'
import {
  checkTemplate,
  gameContainerOf,
  graceSecondsOf,
  type TemplateSupport,
} from '../../../src/rules/validation/pod-template.js'
import { shown } from '../../../src/rules/validation/problem.js'
import { anyJson, frozen, parsed } from '../support.js'

interface Parts {
  /** Beside `metadata` and `spec`. */
  readonly top?: object
  /** Beside `containers`. */
  readonly pod?: object
  /** Fields of the first container, besides those that it needs. */
  readonly container?: object
}

/** A template that every backend can run, with additional fields. */
function templateWith({ top, pod, container }: Parts): Readonly<Record<string, unknown>> {
  const first = { name: 'game', image: 'arena:1', command: ['./arena'], ...container }
  return frozen({ ...top, spec: { containers: [first], ...pod } })
}

const check = (parts: Parts, support: TemplateSupport) => checkTemplate(templateWith(parts), support, 'spec.template')
const runsOn = (skipped: readonly string[]) => ({ ok: true, value: { skipped } })
const refused = (field: string, message: string) => ({
  ok: false,
  problem: { field: `spec.template${field}`, message },
})

const supports: readonly TemplateSupport[] = ['pod', 'container', 'process', 'process-memory']
const limited = ['container', 'process'] as const
const image = 'spec.template.spec.containers[0].image'

/** The process backend also skips the image. */
const skippedOn = (support: 'container' | 'process', ...fields: readonly string[]): readonly string[] => {
  const skipped = fields.map((field) => `spec.template${field}`)
  return (support === 'process' ? [image, ...skipped] : skipped).toSorted()
}

describe('supported by every backend', () => {
  it.each<[string, Parts]>([
    ['command', { container: { command: ['./arena', '--level=7'] } }],
    ['args', { container: { args: ['--fast', ''] } }],
    [
      'env with literal values',
      {
        container: {
          env: [
            { name: 'MODE', value: '' },
            { name: 'MAP', value: 'dust' },
          ],
        },
      },
    ],
    ['workingDir', { container: { workingDir: '/game' } }],
    ['stdin', { container: { stdin: true } }],
    ['no terminal', { container: { stdin: false, tty: false } }],
    [
      'ports with name, containerPort and protocol',
      {
        container: {
          ports: [
            { name: 'game', containerPort: 7777, protocol: 'UDP' },
            { name: 'query', containerPort: 65_535, protocol: 'TCP' },
            { containerPort: 1, protocol: 'SCTP' },
            { containerPort: 2 },
          ],
        },
      },
    ],
    [
      'one name for TCP and UDP on the same number',
      {
        container: {
          ports: [
            { name: 'game', containerPort: 7 },
            { name: 'game', containerPort: 7, protocol: 'UDP' },
          ],
        },
      },
    ],
    ['terminationGracePeriodSeconds', { pod: { terminationGracePeriodSeconds: 0 } }],
  ])('%s', (_field, parts) => {
    expect(check(parts, 'pod')).toStrictEqual(runsOn([]))
    expect(check(parts, 'container')).toStrictEqual(runsOn([]))
    expect(check(parts, 'process')).toStrictEqual(runsOn([image]))
  })

  it('empty values have no effect', () => {
    const parts = {
      top: { metadata: {} },
      pod: { volumes: [], securityContext: {}, initContainers: null, nodeSelector: {} },
      container: { volumeMounts: [], lifecycle: {}, env: null, ports: null, args: null, resources: null, envFrom: [] },
    }
    for (const support of limited) expect(check(parts, support)).toStrictEqual(runsOn(skippedOn(support)))
  })
})

describe('supported by Docker and Kubernetes only', () => {
  const resources = { limits: { cpu: '500m', memory: '256Mi' } }

  it('image, imagePullPolicy, and resources.limits are supported by the container backends', () => {
    expect(check({ container: { resources, imagePullPolicy: 'Always' } }, 'container')).toStrictEqual(runsOn([]))
  })

  it('image, imagePullPolicy, and resources.limits are skipped and reported by the process backend', () => {
    const at = 'spec.template.spec.containers[0]'
    expect(check({ container: { resources, imagePullPolicy: 'Always' } }, 'process')).toStrictEqual(
      runsOn([image, `${at}.resources`, `${at}.imagePullPolicy`]),
    )
  })

  it('the memory limit is supported by a process backend that can hold it, the others are skipped', () => {
    const at = 'spec.template.spec.containers[0]'
    const more = { ...resources, requests: { memory: '1Gi' } }
    expect(check({ container: { resources: more } }, 'process-memory')).toStrictEqual(
      runsOn([image, `${at}.resources.requests`, `${at}.resources.limits.cpu`]),
    )
    expect(check({ container: { command: undefined } }, 'process-memory')).toMatchObject({
      problem: { message: 'is required: it names the program that the process backend starts' },
    })
  })

  it.each(['2', '0.5', '500m', '256Mi', '1Gi', '1e3', '1E', 2, 0.5])('limits may be written as %j', (cpu) => {
    expect(check({ container: { resources: { limits: { cpu } } } }, 'container')).toStrictEqual(runsOn([]))
  })

  it('requests and ephemeral storage are skipped and reported by the container backends', () => {
    const more = { limits: { ...resources.limits, 'ephemeral-storage': '1Gi' }, requests: { cpu: '1' } }
    expect(check({ container: { resources: more } }, 'container')).toStrictEqual(
      runsOn([
        'spec.template.spec.containers[0].resources.requests',
        'spec.template.spec.containers[0].resources.limits.ephemeral-storage',
      ]),
    )
  })

  it('other resources, such as a GPU, are rejected by the container backends', () => {
    const gpu = { limits: { 'nvidia.com/gpu': 1 } }
    expect(check({ container: { resources: gpu } }, 'container')).toMatchObject({
      ok: false,
      problem: { field: 'spec.template.spec.containers[0].resources.limits.nvidia.com/gpu' },
    })
    expect(check({ container: { resources: gpu } }, 'pod')).toStrictEqual(runsOn([]))
  })
})

describe('skipped and reported outside Kubernetes', () => {
  const cases: readonly (readonly [string, Parts])[] = [
    ['.metadata', { top: { metadata: { labels: { tier: 'gold' }, annotations: { a: 'b' } } } }],
    ...[
      'affinity',
      'automountServiceAccountToken',
      'dnsPolicy',
      'enableServiceLinks',
      'imagePullSecrets',
      'nodeName',
      'nodeSelector',
      'preemptionPolicy',
      'priority',
      'priorityClassName',
      'restartPolicy',
      'schedulerName',
      'serviceAccount',
      'serviceAccountName',
      'tolerations',
      'topologySpreadConstraints',
    ].map((field) => [`.spec.${field}`, { pod: { [field]: 'x' } }] as const),
    ...['livenessProbe', 'readinessProbe', 'startupProbe', 'terminationMessagePath', 'terminationMessagePolicy'].map(
      (field) => [`.spec.containers[0].${field}`, { container: { [field]: 'x' } }] as const,
    ),
    ...['hostPort', 'hostIP'].map(
      (field) =>
        [
          `.spec.containers[0].ports[1].${field}`,
          { container: { ports: [{ containerPort: 1 }, { containerPort: 2, [field]: 7777 }] } },
        ] as const,
    ),
  ]

  it.each(cases)('%s', (field, parts) => {
    for (const support of limited) {
      const checked = check(parts, support)
      expect(checked).toMatchObject({ ok: true })
      const skipped = checked.ok ? checked.value.skipped : []
      expect(skipped.toSorted()).toEqual(skippedOn(support, field))
    }
    expect(check(parts, 'pod'), 'Kubernetes gets it unchanged').toStrictEqual(runsOn([]))
  })
})

describe('rejected outside Kubernetes, since ignoring it could change the game', () => {
  const cases: readonly (readonly [string, Parts])[] = [
    ['.kind', { top: { kind: 'Pod' } }],
    ...entries(
      (field, value) => [`.spec.${field}`, { pod: { [field]: value } }],
      [
        ['volumes', [{ name: 'data', emptyDir: {} }]],
        ['initContainers', [{ name: 'init' }]],
        ['ephemeralContainers', [{ name: 'debug' }]],
        ['securityContext', { runAsUser: 1000 }],
        ['hostNetwork', true],
        ['hostPID', true],
        ['hostname', 'arena'],
        ['hostAliases', [{ ip: '10.0.0.1' }]],
        ['dnsConfig', { nameservers: ['10.0.0.1'] }],
        ['shareProcessNamespace', true],
        ['runtimeClassName', 'gvisor'],
        ['activeDeadlineSeconds', 60],
        ['constructor', 'x'],
      ],
    ),
    ...entries(
      (field, value) => [`.spec.containers[0].${field}`, { container: { [field]: value } }],
      [
        ['volumeMounts', [{ name: 'data', mountPath: '/data' }]],
        ['volumeDevices', [{ name: 'data' }]],
        ['envFrom', [{ secretRef: { name: 'keys' } }]],
        ['securityContext', { privileged: true }],
        ['lifecycle', { preStop: {} }],
        ['stdinOnce', true],
        ['toString', 'x'],
      ],
    ),
    [
      '.spec.containers[0].env[1].valueFrom',
      {
        container: {
          env: [
            { name: 'A', value: 'a' },
            { name: 'B', valueFrom: { secretKeyRef: { name: 'keys' } } },
          ],
        },
      },
    ],
    ['.spec.containers[0].ports[0].appProtocol', { container: { ports: [{ containerPort: 1, appProtocol: 'http' }] } }],
  ]

  /** One case for each field and value. */
  function entries(
    caseOf: (field: string, value: unknown) => readonly [string, Parts],
    fields: readonly (readonly [string, unknown])[],
  ): readonly (readonly [string, Parts])[] {
    return fields.map(([field, value]) => caseOf(field, value))
  }

  it.each(cases)('%s', (field, parts) => {
    for (const support of limited) {
      const message = `is not supported by the ${support} backend, and ignoring it could change the game`
      expect(check(parts, support)).toStrictEqual(refused(field, message))
    }
    expect(check(parts, 'pod'), 'Kubernetes gets it unchanged').toStrictEqual(runsOn([]))
  })

  it.each([
    ['cmd', 'command'],
    ['img', 'image'],
    ['Env', 'env'],
    ['workDir', 'workingDir'],
  ])('the misspelled field %s, and the problem names %s', (name, meant) => {
    for (const support of limited) {
      const message = `is not allowed; did you mean ${meant}?`
      expect(check({ container: { [name]: 'x' } }, support)).toStrictEqual(
        refused(`.spec.containers[0].${name}`, message),
      )
    }
  })

  it('a field in another case, and the problem names the right one', () => {
    const name = 'terminationgraceperiodseconds'
    const message = 'is not allowed; did you mean terminationGracePeriodSeconds?'
    for (const support of limited) {
      expect(check({ pod: { [name]: 60 } }, support)).toStrictEqual(refused(`.spec.${name}`, message))
    }
  })

  it('a second container', () => {
    const game = { name: 'game', image: 'arena:1', command: ['./arena'] }
    const two = { spec: { containers: [game, { name: 'proxy', image: 'proxy:1' }] } }
    for (const support of limited) {
      const message = `is a second container, and the ${support} backend runs only one`
      expect(checkTemplate(two, support, 'spec.template')).toStrictEqual(refused('.spec.containers[1]', message))
    }
    expect(checkTemplate(two, 'pod', 'spec.template')).toStrictEqual(runsOn([]))
  })
})

describe('required by a backend', () => {
  const needsCommand = refused(
    '.spec.containers[0].command',
    'is required: it names the program that the process backend starts',
  )
  const needsImage = refused('.spec.containers[0].image', 'is required: it names the image that the container runs')

  it.each([[undefined], [null], [[]], [['']], [['', './arena']]])(
    'the process backend refuses the command %j',
    (command) => {
      expect(check({ container: { command } }, 'process')).toStrictEqual(needsCommand)
      expect(check({ container: { command } }, 'container')).toStrictEqual(runsOn([]))
      expect(check({ container: { command } }, 'pod')).toStrictEqual(runsOn([]))
    },
  )

  it('the process backend refuses a terminal', () => {
    const message =
      'must not be true: the process backend has no terminals; with stdin: true, start the game in one with the program script'
    expect(check({ container: { tty: true } }, 'process')).toStrictEqual(refused('.spec.containers[0].tty', message))
    expect(check({ container: { tty: true } }, 'container')).toStrictEqual(runsOn([]))
    expect(check({ container: { tty: true } }, 'pod')).toStrictEqual(runsOn([]))
  })

  it.each([[undefined], [null], ['']])('the container backend rejects the image %j', (name) => {
    expect(check({ container: { image: name } }, 'container')).toStrictEqual(needsImage)
    expect(check({ container: { image: name } }, 'process')).toMatchObject({ ok: true })
    expect(check({ container: { image: name } }, 'pod')).toStrictEqual(runsOn([]))
  })
})

describe('rejected by every backend', () => {
  const container = (fields: object): unknown => templateWith({ container: fields })
  const first = '.spec.containers[0]'
  const portRule = 'must be an integer from 1 to 65535, but is'

  it.each<[string, unknown, string, string]>([
    ['no template', undefined, '', 'must be a PodTemplateSpec object, but is absent'],
    ['an array', [], '', 'must be a PodTemplateSpec object, but is []'],
    ['no spec', {}, '.spec', 'must be an object with containers, but is absent'],
    ['a spec of another type', { spec: 'x' }, '.spec', 'must be an object with containers, but is "x"'],
    ['no containers', { spec: {} }, '.spec.containers', 'must be an array of at least one container, but is absent'],
    [
      'an empty array of containers',
      { spec: { containers: [] } },
      '.spec.containers',
      'must be an array of at least one container, but is []',
    ],
    [
      'a container that is not an object',
      { spec: { containers: ['x'] } },
      '.spec.containers[0]',
      'must be an object, but is "x"',
    ],
    [
      'a second container that is not an object',
      { spec: { containers: [{}, null] } },
      '.spec.containers[1]',
      'must be an object, but is null',
    ],
    ...[-1, 1.5, '30', true].map((grace): [string, unknown, string, string] => [
      `a grace period of ${JSON.stringify(grace)}`,
      templateWith({ pod: { terminationGracePeriodSeconds: grace } }),
      '.spec.terminationGracePeriodSeconds',
      `must be an integer ≥ 0, but is ${JSON.stringify(grace)}`,
    ]),
    ...['name', 'image', 'workingDir'].map((field): [string, unknown, string, string] => [
      `${field} of another type`,
      container({ [field]: 7 }),
      `${first}.${field}`,
      'must be a string, but is 7',
    ]),
    ...['command', 'args'].flatMap((field): [string, unknown, string, string][] => [
      [
        `${field} as a string`,
        container({ [field]: 'x' }),
        `${first}.${field}`,
        'must be an array of strings, but is "x"',
      ],
      [`${field} of numbers`, container({ [field]: [7] }), `${first}.${field}[0]`, 'must be a string, but is 7'],
    ]),
    ...['env', 'ports'].flatMap((field): [string, unknown, string, string][] => [
      [
        `${field} as an object`,
        container({ [field]: {} }),
        `${first}.${field}`,
        'must be an array of objects, but is {}',
      ],
      [`${field} of strings`, container({ [field]: ['x'] }), `${first}.${field}[0]`, 'must be an object, but is "x"'],
    ]),
    ...[undefined, '', 'A=B', 'A\0', 7].map((name): [string, unknown, string, string] => [
      `a variable named ${JSON.stringify(name)}`,
      container({ env: [{ name, value: 'x' }] }),
      `${first}.env[0].name`,
      `must be the name of an environment variable, without "=", but is ${name === undefined ? 'absent' : JSON.stringify(name)}`,
    ]),
    [
      'a variable whose value is a number',
      container({ env: [{ name: 'A', value: 7 }] }),
      `${first}.env[0].value`,
      'must be a string, but is 7',
    ],
    ...[undefined, 0, 65_536, '80', 1.5].map((port): [string, unknown, string, string] => [
      `containerPort ${JSON.stringify(port)}`,
      container({ ports: [{ containerPort: port }] }),
      `${first}.ports[0].containerPort`,
      `${portRule} ${port === undefined ? 'absent' : JSON.stringify(port)}`,
    ]),
    ...['udp', 'HTTP', '', 7].map((protocol): [string, unknown, string, string] => [
      `protocol ${JSON.stringify(protocol)}`,
      container({ ports: [{ containerPort: 1, protocol }] }),
      `${first}.ports[0].protocol`,
      `must be one of TCP, UDP, SCTP, but is ${JSON.stringify(protocol)}`,
    ]),
    [
      'a port named by a number',
      container({ ports: [{ containerPort: 1, name: 7 }] }),
      `${first}.ports[0].name`,
      'must be a string, but is 7',
    ],
    [
      'one name for two port numbers',
      container({
        ports: [
          { name: 'game', containerPort: 7777 },
          { name: 'game', containerPort: 7778 },
        ],
      }),
      `${first}.ports[1].name`,
      'must stand for one port number, but "game" names 7777 and 7778',
    ],
    ['resources of another type', container({ resources: [] }), `${first}.resources`, 'must be an object, but is []'],
    [
      'limits of another type',
      container({ resources: { limits: 2 } }),
      `${first}.resources.limits`,
      'must be an object of quantities, but is 2',
    ],
    ...['', 'much', '-1', '1 Gi', '1gi', '0x10', -1, NaN, true, {}].map((memory): [string, unknown, string, string] => [
      `a limit of ${shown(memory)}`,
      container({ resources: { limits: { memory } } }),
      `${first}.resources.limits.memory`,
      `must be a quantity like 2, "500m" or "256Mi", but is ${shown(memory)}`,
    ]),
  ])('%s', (_what, template, field, message) => {
    for (const support of supports) {
      expect(checkTemplate(frozen(template), support, 'spec.template')).toStrictEqual(refused(field, message))
    }
  })

  it('prefixes field paths with the template’s path', () => {
    expect(checkTemplate({}, 'pod', 'template')).toMatchObject({ problem: { field: 'template.spec' } })
  })
})

describe('gameContainerOf', () => {
  it('reads the supported fields of the first container', () => {
    const container = {
      name: 'arena',
      image: 'arena:1',
      command: ['./arena'],
      args: ['--fast'],
      env: [{ name: 'MODE', value: 'duel' }, { name: 'EMPTY', value: '' }, { name: 'NONE' }],
      workingDir: '/game',
      ports: [{ name: 'game', containerPort: 7777, protocol: 'UDP', hostPort: 1 }, { containerPort: 7778 }],
      resources: { limits: { cpu: 0.5, memory: '256Mi', gpu: null }, requests: { cpu: '1' } },
      imagePullPolicy: 'Always',
      stdin: true,
      tty: true,
    }
    expect(gameContainerOf(frozen({ spec: { containers: [container, { name: 'other' }] } }))).toStrictEqual({
      name: 'arena',
      image: 'arena:1',
      imagePullPolicy: 'Always',
      command: ['./arena'],
      args: ['--fast'],
      env: [
        { name: 'MODE', value: 'duel' },
        { name: 'EMPTY', value: '' },
        { name: 'NONE', value: '' },
      ],
      workingDir: '/game',
      ports: [
        { name: 'game', containerPort: 7777, protocol: 'UDP' },
        { containerPort: 7778, protocol: 'TCP' },
      ],
      limits: { cpu: '0.5', memory: '256Mi' },
      stdin: true,
      tty: true,
    })
  })

  it('fills in defaults for an empty container', () => {
    expect(gameContainerOf(frozen({ spec: { containers: [{ command: ['./arena'] }] } }))).toStrictEqual({
      name: 'game',
      command: ['./arena'],
      args: [],
      env: [],
      ports: [],
      limits: {},
      stdin: false,
      tty: false,
    })
  })
})

describe('graceSecondsOf', () => {
  it.each([
    [{}, 30],
    [{ terminationGracePeriodSeconds: null }, 30],
    [{ terminationGracePeriodSeconds: 0 }, 0],
    [{ terminationGracePeriodSeconds: 5 }, 5],
  ])('%j is %i s', (pod, seconds) => {
    expect(graceSecondsOf(templateWith({ pod }))).toBe(seconds)
  })
})

const keys = [
  ...[
    'metadata',
    'spec',
    'containers',
    'command',
    'args',
    'env',
    'name',
    'value',
    'ports',
    'containerPort',
    'protocol',
  ],
  ...[
    'resources',
    'limits',
    'image',
    'terminationGracePeriodSeconds',
    'volumes',
    '__proto__',
    'constructor',
    'toString',
  ],
]

describe('any template', () => {
  test.prop([anyJson(...keys)])('is accepted, or rejected with the invalid field; the check never throws', (json) => {
    const nested = [json, { spec: json }, { spec: { containers: json } }, { spec: { containers: [json] } }]
    for (const template of nested) {
      for (const support of supports) {
        const checked = checkTemplate(frozen(template), support, 'spec.template')
        if (!checked.ok) expect(checked.problem.field).toMatch(/^spec\.template/)
      }
    }
  })

  test.prop([anyJson(...keys)])('is accepted by Kubernetes if another backend accepts it', (json) => {
    const template = templateWith({ container: typeof json === 'object' && json !== null ? json : {} })
    const taken = limited.some((support) => checkTemplate(template, support, 'spec.template').ok)
    if (taken) {
      expect(checkTemplate(template, 'pod', 'spec.template')).toStrictEqual(runsOn([]))
      expect(gameContainerOf(template).command.every((part) => typeof part === 'string')).toBe(true)
    }
  })

  it('cannot hide fields behind __proto__', () => {
    const template = parsed('{"spec":{"containers":[{"image":"a","command":["b"]}],"__proto__":{"volumes":[1]}}}')
    expect(checkTemplate(template, 'process', 't')).toMatchObject({ ok: false, problem: { field: 't.spec.__proto__' } })
  })
})
