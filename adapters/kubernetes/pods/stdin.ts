/** Sends a line to the standard input of a game's container. */
import type { CallOptions } from '../../../src/contracts/call-options.js'
import type { Clock } from '../../../src/contracts/clock.js'
import { objectAt, objectsAt } from '../../../src/rules/validation/template-shape.js'
import { unlessAborted } from '../../../src/util/signals.js'
import { withTimeout } from '../../../src/util/with-timeout.js'
import { noStdin } from '../../shared/no-stdin.js'
import type { KubernetesApi } from '../client/api.js'
import { handshake, sendStdin } from '../client/attach.js'
import { pathOf, pods as podType } from '../client/kube-objects.js'
import type { PodSnapshot } from './pod-snapshot.js'

export interface StdinTarget {
  readonly api: KubernetesApi
  readonly clock: Clock
  readonly timeoutMs: number
  readonly snapshot: PodSnapshot
}

/** Rejects with `no-stdin`, or with `unavailable` if the game reads nothing: the line may then still arrive. */
export async function writeStdin(target: StdinTarget, line: string, { signal }: CallOptions): Promise<void> {
  const { api, clock, timeoutMs, snapshot } = target
  const { ref, container } = snapshot.identity
  const what = `send a line to pod ${ref.name}`
  const pod = await api.object({ what, method: 'GET', path: pathOf(podType, ref), signal })
  const game = objectsAt(objectAt({ ...pod }, 'spec'), 'containers').find(({ name }) => name === container)
  if (game?.['stdin'] !== true) throw noStdin(ref, 'closed')
  // It would be closed after the first line.
  if (game['stdinOnce'] === true) throw noStdin(ref, 'once')
  if (snapshot.instance.phase !== 'running') throw noStdin(ref, 'ended')
  const stream = await api.open({
    what,
    method: 'GET',
    path: pathOf(podType, { ...ref, subresource: 'attach' }),
    signal,
    query: { container, stdin: true },
    headers: handshake(clock),
  })
  const sent = withTimeout(clock, timeoutMs, what, (timeout) => {
    timeout.addEventListener('abort', stream.stop)
    return sendStdin(stream, line, what, clock)
  })
  await unlessAborted(sent, signal).finally(stream.stop)
}
