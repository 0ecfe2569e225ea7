/** Finds a port of the game server by its name or its number in the build's template. */
import { FleetError } from '../contracts/errors.js'
import { findPort } from '../rules/model/named-ports.js'
import type { GamePort } from './config.js'

export type FindPort = (nameOrNumber?: string | number) => GamePort

/** `env` tells the number in the template where the game listens on another one: `PORT_7777=10003`. */
export function portFinder(
  ports: Readonly<Record<string, GamePort>>,
  env: Readonly<Record<string, string | undefined>>,
): FindPort {
  const containers = new Map<number, number>()
  for (const [name, value] of Object.entries(env)) {
    const [, container] = /^PORT_(\d+)$/.exec(name) ?? []
    if (container !== undefined) containers.set(Number(value), Number(container))
  }
  const known = Object.entries(ports).map(([name, port]) => ({
    name,
    container: containers.get(port.listening) ?? port.listening,
    port,
  }))
  return (nameOrNumber) => {
    const found = findPort(known, nameOrNumber)
    if (!found.ok) throw new FleetError('invalid', `config.port: ${found.problem.field} ${found.problem.message}`)
    return found.value.port
  }
}
