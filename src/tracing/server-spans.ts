/** Spans of servers, from the fleet's events: one from a server's creation until it is ready, one while it ends. */
import type { FleetEvent } from '../contracts/events.js'
import type { Fleet } from '../contracts/fleet.js'
import { keyOf, type Ref } from '../rules/model/resources.js'
import type { OpenTelemetry, Span, Tracer } from './open-telemetry.js'

type EventOf<T extends FleetEvent['type']> = Extract<FleetEvent, { readonly type: T }>

export class ServerSpans {
  readonly #tracer: Tracer
  readonly #api: OpenTelemetry
  readonly #starting = new Map<string, Span>()
  readonly #ending = new Map<string, Span>()

  constructor(tracer: Tracer, api: OpenTelemetry) {
    this.#tracer = tracer
    this.#api = api
  }

  /** Follows the events of a fleet until the returned function is called, which also ends all open spans. */
  follow(fleet: Pick<Fleet, 'on'>): () => void {
    const stops = [
      fleet.on('ServerCreated', (event) => {
        this.#starting.set(keyOf(event.server), this.#begin('gamekeeper.server.start', event))
      }),
      fleet.on('ServerStartFailed', ({ server, reason, at }) => {
        this.#starting.get(keyOf(server))?.addEvent('start failed', { reason }, new Date(at))
      }),
      fleet.on('ServerStateChanged', ({ server, to, at }) => {
        if (to === 'StandingBy' || to === 'Active') finish(this.#starting, server, at)
      }),
      fleet.on('ServerEnding', (event) => this.#handleEnding(event)),
      fleet.on('ServerRemoved', ({ server, at }) => {
        finish(this.#starting, server, at)
        finish(this.#ending, server, at)
      }),
      fleet.on('LeadershipChanged', ({ leads }) => {
        if (!leads) this.#endAll() // another host sees how they end
      }),
    ]
    return () => {
      for (const stop of stops) stop()
      this.#endAll()
    }
  }

  #endAll(): void {
    for (const spans of [this.#starting, this.#ending]) {
      for (const span of spans.values()) span.setAttributes({ 'gamekeeper.left_open': true })
      for (const span of spans.values()) span.end()
      spans.clear()
    }
  }

  #handleEnding(event: EventOf<'ServerEnding'>): void {
    const { server, at, reason, crash, message } = event
    const error = { code: this.#api.SpanStatusCode.ERROR, message }
    this.#starting.get(keyOf(server))?.setStatus(error)
    finish(this.#starting, server, at)
    const span = this.#begin('gamekeeper.server.end', event)
    span.setAttributes({ 'gamekeeper.reason': reason, 'gamekeeper.crash': crash })
    if (crash) span.setStatus(error)
    this.#ending.set(keyOf(server), span)
  }

  /** A span of its own trace: whatever request happens to be in progress did not cause it alone. */
  #begin(name: string, { build, server, at }: EventOf<'ServerCreated'> | EventOf<'ServerEnding'>): Span {
    const attributes = {
      'gamekeeper.namespace': build.namespace,
      'gamekeeper.build': build.name,
      'gamekeeper.server': server.name,
    }
    return this.#tracer.startSpan(name, { attributes, startTime: new Date(at) }, this.#api.ROOT_CONTEXT)
  }
}

function finish(spans: Map<string, Span>, server: Ref, at: number): void {
  const key = keyOf(server)
  spans.get(key)?.end(new Date(at))
  spans.delete(key)
}
