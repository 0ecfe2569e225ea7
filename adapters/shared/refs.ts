/** Converts refs to and from text for file and container names. Pure. */
import { FleetError } from '../../src/contracts/errors.js'
import { labelPattern } from '../../src/rules/model/names.js'
import type { Ref } from '../../src/rules/model/resources.js'

/** Throws `invalid` unless both namespace and name are RFC 1123 labels. */
export function checkRef(ref: Ref): void {
  if (isLabel(ref.namespace) && isLabel(ref.name)) return
  throw new FleetError(
    'invalid',
    `an instance's namespace and name must be RFC 1123 labels, but are "${ref.namespace}" and "${ref.name}"`,
  )
}

/** Returns `<namespace>.<name>`, which is unambiguous because labels contain no dots. */
export function dottedName(ref: Ref): string {
  return `${ref.namespace}.${ref.name}`
}

/** Returns undefined if the text is not a dotted name. */
export function parseDottedName(text: string): Ref | undefined {
  const [namespace = '', name = '', ...rest] = text.split('.')
  return rest.length === 0 && isLabel(namespace) && isLabel(name) ? { namespace, name } : undefined
}

function isLabel(text: string): boolean {
  return labelPattern.test(text)
}
