/** `run` in place of a template, in every call that takes a spec. */
import { describe, expect, it } from 'vitest'
import { FleetError } from '../../src/contracts/errors.js'
import { aBuild, failureOf, stage } from './stage.js'

const common = { buildID: 'arena', standingBy: 0, max: 2 }
const metadata = { name: 'arena' }
const run = { command: ['node', 'game.mjs'], ports: [{ name: 'game', port: 7777 }] }
const expanded = {
  portsToExpose: [7777],
  template: {
    spec: {
      containers: [{ name: 'game', command: ['node', 'game.mjs'], ports: [{ name: 'game', containerPort: 7777 }] }],
    },
  },
}

describe('run', () => {
  it('is stored and returned as the template and ports that it stands for', async () => {
    const fleet = await stage().open()
    const build = await fleet.builds.create({ metadata, spec: { ...common, run } })
    expect(build.spec).toEqual({ ...common, ...expanded })
    expect(await fleet.builds.get('arena')).toEqual(build)
    expect((await fleet.builds.apply({ metadata, spec: { ...common, run } })).result).toBe('unchanged')
    expect((await fleet.builds.apply(build)).result).toBe('unchanged')
    const ports = [...run.ports, { port: 7778 }]
    const applied = await fleet.builds.apply({ metadata, spec: { ...common, run: { ...run, ports } } })
    expect(applied).toMatchObject({ result: 'updated', build: { spec: { portsToExpose: [7777, 7778] } } })
  })

  it('replaces template and ports in an update, and may be replaced by them', async () => {
    const fleet = await stage().open()
    await fleet.builds.create(aBuild({ standingBy: 0, max: 2, portsToExpose: [1234], graceSeconds: 5 }))
    expect((await fleet.builds.update('arena', { run, max: 3 })).spec).toEqual({ ...common, max: 3, ...expanded })
    const { template } = aBuild().spec
    expect((await fleet.builds.update('arena', { template, run: undefined })).spec).toMatchObject({ template })
    expect(await failureOf(fleet.builds.update('arena', { run, template }))).toMatchObject({
      code: 'invalid',
      message: 'spec.template is not allowed beside run; set run, or template and portsToExpose',
    })
  })

  it('is named in what the backend refuses and ignores', async () => {
    const scene = stage()
    const check = () => {
      throw new FleetError('invalid', 'spec.template.spec.containers[0].image must be an image name, but is "A"')
    }
    const { backend } = scene
    const capabilities = { ...backend.capabilities, template: 'process' as const }
    const fleet = await scene.open({ backend: { ...backend, capabilities } })
    expect(await failureOf(fleet.builds.create({ metadata, spec: { ...common, run: {} } }))).toMatchObject({
      message: 'spec.run.command is required: it names the program that the process backend starts',
    })
    await fleet.builds.create({ metadata, spec: { ...common, run: { ...run, image: 'arena:1' } } })
    expect(scene.eventsOf('TemplateFieldsSkipped')).toMatchObject([{ fields: ['spec.run.image'] }])
    await fleet.close()

    const strict = await scene.open({ backend: { ...backend, check } })
    expect(await failureOf(strict.builds.update('arena', { run }))).toMatchObject({
      code: 'invalid',
      message: 'spec.run.image must be an image name, but is "A"',
    })
  })
})
