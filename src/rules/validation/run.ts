/** Expands `run`, the short form of a template, and turns the names of the template's fields back into those of `run`. Pure. */
import type { BuildSpec } from '../model/resources.js'
import type { RunSpec } from '../model/run.js'
import { invalid, type Refused } from './problem.js'
import { firstOf } from './template-shape.js'

export function expandRun(run: RunSpec): Pick<BuildSpec, 'portsToExpose' | 'template'> {
  const { command, args, env, image, stdin, ports = [] } = run
  const container = {
    name: 'game',
    ...(image !== undefined && { image }),
    ...(command && { command }),
    ...(args && { args }),
    ...(env && { env: Object.entries(env).map(([name, value]) => ({ name, value })) }),
    ...(stdin !== undefined && { stdin }),
    ...(ports.length > 0 && { ports: ports.map(({ port, ...others }) => ({ ...others, containerPort: port })) }),
  }
  // A port with two protocols is listed twice, but made public once.
  return {
    portsToExpose: [...new Set(ports.map(({ port }) => port))],
    template: { spec: { containers: [container] } },
  }
}

/** Returns undefined if no port is listed twice with the same protocol. */
export function checkRunPorts({ ports = [] }: RunSpec): Refused | undefined {
  const seen = new Set<string>()
  return firstOf(ports, ({ port, protocol = 'TCP' }, i) => {
    const isNew = seen.size < seen.add(`${port}/${protocol}`).size
    return isNew ? undefined : invalid(`spec.run.ports[${i}].port`, `must not repeat ${port} with ${protocol}`)
  })
}

/**
 * Replaces the paths of fields of the expanded template by those of `run`: `spec.template.spec.containers[0].command` becomes
 * `spec.run.command`.
 */
export function runFieldsIn(text: string, { env = {} }: RunSpec): string {
  const names = Object.keys(env)
  return text
    .replaceAll('spec.template.spec.containers[0]', 'spec.run')
    .replaceAll('spec.template', 'spec.run')
    .replaceAll(/\bspec\.run\.env\[(\d+)\](\.value)?/g, (path, index) => {
      const name = names[Number(index)]
      return name === undefined ? path : `spec.run.env.${name}`
    })
    .replaceAll(/\b(spec\.run\.ports\[\d+\])\.containerPort/g, '$1.port')
}
