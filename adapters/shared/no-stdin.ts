/** Why a server takes no input. */
import { FleetError } from '../../src/contracts/errors.js'
import { keyOf, type Ref } from '../../src/rules/model/resources.js'

const reasons = {
  closed: 'its template has no stdin: true, which keeps the standard input of a game open',
  once: 'its template has stdinOnce: true, which closes the standard input after the first line',
  ended: 'its game is not running',
  full: 'its game does not read what was sent before',
} as const

export function noStdin(ref: Ref, why: keyof typeof reasons, cause?: unknown): FleetError {
  return new FleetError('no-stdin', `server ${keyOf(ref)} takes no input: ${reasons[why]}`, { cause })
}
