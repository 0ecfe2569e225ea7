/** Sends a line to the standard input of a container. */
import type { CallOptions } from '../../../src/contracts/call-options.js'
import { noStdin } from '../../shared/no-stdin.js'
import type { EngineApi } from '../engine/engine-api.js'
import { statusOf } from '../engine/engine-errors.js'
import type { Container } from './instance.js'

/** Rejects with `no-stdin`, or with `unavailable` if the game reads nothing: the line may then still arrive. */
export async function writeStdin(
  api: EngineApi,
  container: Container,
  line: string,
  options: CallOptions,
): Promise<void> {
  const { id, identity, openStdin } = container
  if (!openStdin) throw noStdin(identity.ref, 'closed')
  if (container.status !== 'running') throw noStdin(identity.ref, 'ended')
  try {
    await api.writeStdin(id, line, options)
  } catch (error) {
    // It has ended, or was paused or removed, since it was inspected.
    const status = statusOf(error)
    throw status === 404 || status === 409 ? noStdin(identity.ref, 'ended', error) : error
  }
}
