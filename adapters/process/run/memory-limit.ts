/** The memory limit of a template. Pure. */
import { FleetError } from '../../../src/contracts/errors.js'
import type { GameContainer } from '../../../src/rules/validation/template.js'
import { quantityOf } from '../../shared/quantity.js'

/** Less than a program needs to start. */
const minBytes = 2 ** 20

/** In bytes. Undefined if the template sets no limit, or one that `checkMemoryLimit` rejects. */
export function memoryOf({ limits }: Pick<GameContainer, 'limits'>): number | undefined {
  const bytes = Math.floor(quantityOf(limits['memory'] ?? ''))
  return bytes >= minBytes && bytes <= Number.MAX_SAFE_INTEGER ? bytes : undefined
}

/** Throws `invalid`, naming the field. */
export function checkMemoryLimit(container: Pick<GameContainer, 'limits'>): void {
  const { memory } = container.limits
  if (memory === undefined || memoryOf(container) !== undefined) return
  const field = 'spec.template.spec.containers[0].resources.limits.memory'
  throw new FleetError(
    'invalid',
    `${field} must be a quantity of bytes of at least 1Mi, but is ${JSON.stringify(memory)}`,
  )
}
