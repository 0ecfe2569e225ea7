/** The service that answers the webhooks of scaling policies: late, wrongly, or not at all for a while. Knows what each host has been answered. */
import { FleetError } from '../../../src/contracts/errors.js'
import type { AskWebhook, WebhookRequest } from '../../../src/contracts/scaling-demand.js'
import type { WebhookPolicy } from '../../../src/rules/scaling/policies.js'
import type { Host } from '../world/host.js'
import type { World } from '../world/world.js'

/** The origin that the hosts allow, and one that they do not. */
export const allowedOrigin = 'https://demand.example'
const otherOrigin = 'https://elsewhere.example'

/** A webhook with a URL of its own, which says what it does once there are no more faults: answers with a number, or is away for good. */
export function someWebhook(world: World): WebhookPolicy {
  const origin = world.chance(0.1) ? otherOrigin : allowedOrigin
  const settled = world.chance(0.5) ? 'away' : world.between(0, 3)
  const [everySeconds, timeoutSeconds] = [world.between(2, 8), world.between(1, 5)]
  return {
    url: `${origin}/${world.guid()}/${settled}`,
    ...{ everySeconds, timeoutSeconds },
    holdSeconds: everySeconds + timeoutSeconds + world.between(5, 45),
    otherwise: world.between(0, 2),
  }
}

interface Answered {
  readonly standingBy: number
  readonly atMs: number
}

export class WebhookModel {
  /** By host, its term and URL. */
  readonly #answered = new Map<string, Answered>()
  #awayUntilMs = 0

  constructor(readonly world: World) {}

  for(host: Host): AskWebhook {
    return (request) => this.#ask(host, request)
  }

  /** What the policy asks for, as this host has to know. */
  asks(host: Host, { url, holdSeconds = 0, otherwise = 0 }: WebhookPolicy): number {
    if (new URL(url).origin !== allowedOrigin) return 0
    const answered = this.#answered.get(keyOf(host, url))
    return answered && this.world.elapsedMs - answered.atMs < holdSeconds * 1_000 ? answered.standingBy : otherwise
  }

  #ask(host: Host, { url, timeoutMs, signal }: WebhookRequest): Promise<unknown> {
    const { world } = this
    if (new URL(url).origin !== allowedOrigin) world.violate(`${host.name} calls ${url}, which it may not`)
    const askedMs = world.elapsedMs
    return new Promise((resolve, reject) => {
      const fail = (why: string) => {
        cancel()
        reject(new FleetError('unavailable', why))
      }
      const cancel = world.after(timeoutMs, () => host.run(() => fail('no answer in time')))
      signal.addEventListener('abort', () => fail('aborted'))
      const answer = this.#answerTo(url)
      if (answer === undefined) return
      const isLate = world.fault('webhook: late answer', 0.1)
      const latencyMs = isLate ? world.between(500, 2 * timeoutMs) : world.between(0, 50)
      world.after(latencyMs, () =>
        host.run(() => {
          if (signal.aborted || world.elapsedMs - askedMs > timeoutMs) return
          cancel()
          if (answer >= 0) this.#answered.set(keyOf(host, url), { standingBy: answer, atMs: world.elapsedMs })
          resolve({ standingBy: answer })
        }),
      )
    })
  }

  /** A negative number is no answer that counts. Undefined: there is none. */
  #answerTo(url: string): number | undefined {
    const { world } = this
    const settled = url.slice(url.lastIndexOf('/') + 1)
    if (!world.faultsEnabled) return settled === 'away' ? undefined : Number(settled)
    if (world.elapsedMs < this.#awayUntilMs) return undefined
    if (world.fault('webhook: away', 0.04)) {
      this.#awayUntilMs = world.elapsedMs + world.between(5_000, 120_000)
      return undefined
    }
    return world.fault('webhook: wrong answer', 0.05) ? -1 : world.between(0, 5)
  }
}

function keyOf({ name, terms }: Host, url: string): string {
  return `${name} ${terms} ${url}`
}
