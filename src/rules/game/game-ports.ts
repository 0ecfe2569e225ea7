/** Reads the names and protocols of ports from a template. Pure. */
import { type DeclaredPorts, defaultPortName } from '../model/named-ports.js'
import type { PodTemplateSpec } from '../model/resources.js'
import { declaredPortsOf } from '../validation/template.js'

/** Reads the ports of all containers, because any of them may declare a port for the game. */
export function gamePortsOf(template: PodTemplateSpec): DeclaredPorts {
  const declared = new Map<number, { readonly name: string; readonly protocol: string }[]>()
  for (const { containerPort, name, protocol } of declaredPortsOf(template)) {
    const same = declared.get(containerPort) ?? []
    declared.set(containerPort, [...same, { name: name ?? same[0]?.name ?? defaultPortName(containerPort), protocol }])
  }
  return declared
}
