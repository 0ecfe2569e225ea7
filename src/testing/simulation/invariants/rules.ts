/** Whether what people write by hand breaks a rule: said here once more, and not by the rules that are tried. */
import type { BuildSpec } from '../../../rules/model/resources.js'

/** Beyond standingBy and max, and a buildID that another build has. */
export function breaksRule({ portsToExpose, template }: Pick<BuildSpec, 'portsToExpose' | 'template'>): boolean {
  return new Set(portsToExpose).size < portsToExpose.length || JSON.stringify(template).includes('"lots"')
}
