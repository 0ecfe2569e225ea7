/** `run`, the short form of a template: what it stands for, and messages that name its fields. */
import { describe, expect, it } from 'vitest'
import { checkForBackend, readBuildInput } from '../../../src/rules/validation/build-schema.js'
import type { TemplateSupport } from '../../../src/rules/validation/pod-template.js'
import { frozen } from '../support.js'

const common = { buildID: 'b-1', standingBy: 2, max: 5 }
const build = (spec: object) => frozen({ metadata: { name: 'arena' }, spec: { ...common, ...spec } })
const specOf = (run: unknown, others: object = {}) => {
  const read = readBuildInput(build({ run, ...others }))
  return read.ok ? read.value.spec : `${read.problem.field} ${read.problem.message}`
}
const supportOf = (run: object, support: TemplateSupport) => {
  const read = readBuildInput(build({ run }))
  if (!read.ok) return read.problem
  const checked = checkForBackend(read.value, support, true)
  return checked.ok ? checked.value.skipped : `${checked.problem.field} ${checked.problem.message}`
}

const game = { name: 'game', port: 7777 }

describe('run', () => {
  it('stands for a template with one container, and for portsToExpose', () => {
    const run = {
      command: ['node', 'game.mjs'],
      args: ['--map', '$(MAP)'],
      env: { MAP: 'dust', EMPTY: '' },
      image: 'arena:1',
      stdin: true,
      ports: [game, { name: 'query', port: 7778, protocol: 'UDP' }],
    }
    expect(specOf(run)).toStrictEqual({
      ...common,
      portsToExpose: [7777, 7778],
      template: {
        spec: {
          containers: [
            {
              name: 'game',
              image: 'arena:1',
              command: ['node', 'game.mjs'],
              args: ['--map', '$(MAP)'],
              env: [
                { name: 'MAP', value: 'dust' },
                { name: 'EMPTY', value: '' },
              ],
              stdin: true,
              ports: [
                { name: 'game', containerPort: 7777 },
                { name: 'query', protocol: 'UDP', containerPort: 7778 },
              ],
            },
          ],
        },
      },
    })
  })

  it('may be empty, for a backend that needs nothing', () => {
    const template = { spec: { containers: [{ name: 'game' }] } }
    expect(specOf({})).toStrictEqual({ ...common, portsToExpose: [], template })
  })

  it('exposes a port with two protocols once', () => {
    const ports = [
      { port: 7777, protocol: 'UDP' },
      { port: 7777, protocol: 'TCP' },
    ]
    expect(specOf({ ports })).toMatchObject({ portsToExpose: [7777] })
  })
})

/** A message without what it says about other fields. */
const firstOf = (spec: unknown): string => String(spec).split('; also ')[0] ?? ''

describe('a message names the field of run for', () => {
  it.each<[string, unknown, string]>([
    [
      'run that is no object',
      'node game.mjs',
      'spec.run must be an object such as { command, ports }, but is "node game.mjs"',
    ],
    ['a command that is a string', { command: 'node' }, 'spec.run.command must be an array of strings, but is "node"'],
    ['a misspelled field', { comand: [] }, 'spec.run.comand is not allowed; did you mean command?'],
    [
      'a field that only a template has',
      { resources: {} },
      'spec.run.resources is not allowed; allowed fields are command, args, env, image, stdin, ports',
    ],
    [
      'the name that a template has for a port',
      { ports: [{ name: 'game', containerPort: 7777 }] },
      'spec.run.ports[0].containerPort is not allowed; allowed fields are name, port, protocol',
    ],
    [
      'a port out of range',
      { ports: [{ port: 0 }] },
      'spec.run.ports[0].port must be an integer from 1 to 65535, but is 0',
    ],
    ['a port that is a number', { ports: [7777] }, 'spec.run.ports[0] must be an object with a port, but is 7777'],
    [
      'an unknown protocol',
      { ports: [{ port: 7777, protocol: 'udp' }] },
      'spec.run.ports[0].protocol must be one of TCP, UDP, SCTP, but is "udp"',
    ],
    ['a repeated port', { ports: [game, { port: 7777 }] }, 'spec.run.ports[1].port must not repeat 7777 with TCP'],
    [
      'a name of two ports',
      { ports: [game, { name: 'game', port: 7778 }] },
      'spec.run.ports[1].name must stand for one port number, but "game" names 7777 and 7778',
    ],
    ['a value that is a number', { env: { MAX: 5 } }, 'spec.run.env.MAX must be a string, but is 5'],
    [
      'variables as in a template',
      { env: [{ name: 'MAP', value: 'dust' }] },
      'spec.run.env must be an object of strings, but is [{"name":"MAP","value":"dust"}]',
    ],
    [
      'a name with an equals sign',
      { env: { 'A=B': '' } },
      'spec.run.env must have keys of the name of an environment variable, without "=", but has "A=B"',
    ],
    [
      'a value that is too large when it is expanded',
      { env: { A: 'x'.repeat(20_000), B: '$(A)$(A)' } },
      'spec.run.env.B must expand to at most 32768 bytes of UTF-8, but expands to 40000',
    ],
  ])('%s', (_, run, message) => {
    expect(firstOf(specOf(run))).toBe(message)
  })

  it.each([
    ['spec.template is not allowed beside run; set run, or template and portsToExpose', { template: {} }],
    ['spec.portsToExpose is not allowed beside run; set run, or template and portsToExpose', { portsToExpose: [] }],
  ])('%s', (message, others) => {
    expect(firstOf(specOf({}, others))).toBe(message)
  })

  it('a spec with neither form, and for one with half of the long form', () => {
    expect(specOf(undefined)).toBe('spec must have run, or template and portsToExpose')
    expect(specOf(undefined, { portsToExpose: [] })).toBe(
      'spec.template must be a PodTemplateSpec object, but is absent',
    )
  })

  it('what a backend needs or ignores', () => {
    const needsCommand = 'spec.run.command is required: it names the program that the process backend starts'
    expect(supportOf({ image: 'arena:1' }, 'process')).toBe(needsCommand)
    expect(supportOf({ command: ['game'], image: 'arena:1' }, 'process')).toStrictEqual(['spec.run.image'])
    expect(supportOf({ command: ['game'], ports: [game] }, 'process')).toStrictEqual([])
    const needsImage = 'spec.run.image is required: it names the image that the container runs'
    expect(supportOf({ command: ['game'] }, 'container')).toBe(needsImage)
    expect(supportOf({ image: 'arena:1' }, 'container')).toStrictEqual([])
  })
})
