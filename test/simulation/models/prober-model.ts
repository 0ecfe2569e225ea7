/**
 * How hosts reach games without an SDK: answers come late or are lost, alone or several in a row, of one game, or of all while the network is
 * away. What a host that has stopped would be answered goes nowhere.
 */
import { FleetError } from '../../../src/contracts/errors.js'
import type { ProbeAddress, Prober } from '../../../src/contracts/prober.js'
import type { PlayersReport } from '../../../src/rules/game/probes.js'
import type { Host } from '../world/host.js'
import type { World } from '../world/world.js'
import type { BackendModel, ModelInstance } from './backend-model.js'

export type Asked = 'check' | 'players'

export interface ProberObserver {
  /** Called when a host asks. */
  asked(host: Host, instance: ModelInstance): void
  /** Called when a host gets an answer. `term` is its term when it asked. */
  answered(host: Host, term: number, instance: ModelInstance, players: readonly string[] | undefined): void
  /** Called when a host gets none. */
  unanswered(host: Host, term: number, instance: ModelInstance, asked: Asked): void
}

interface ProberModelDependencies {
  readonly backend: BackendModel
  readonly observer: ProberObserver
}

export class ProberModel {
  /** Elapsed ms until which hosts and games are out of reach. */
  readonly #awayUntil = new Map<Host | ModelInstance, number>()
  #allAwayUntil = 0

  constructor(
    readonly world: World,
    readonly deps: () => ProberModelDependencies,
  ) {}

  for(host: Host): Prober {
    const pending = new Set<() => void>()
    const ask = <T>(asked: Asked, address: ProbeAddress, timeoutMs: number, answerOf: (game: ModelInstance) => T) =>
      this.#ask({ host, asked, address, timeoutMs, pending }, answerOf)
    return {
      check: (_, address, timeoutMs) => ask('check', address, timeoutMs, () => {}),
      players: (_, address, timeoutMs) =>
        ask('players', address, timeoutMs, ({ game }): PlayersReport => {
          const names = game?.players ?? []
          return { count: names.length, names }
        }),
      close() {
        for (const end of [...pending]) end()
      },
    }
  }

  #ask<T>(
    { host, asked, address, timeoutMs, pending }: Question,
    answerOf: (instance: ModelInstance) => T,
  ): Promise<T> {
    const { world } = this
    const { backend, observer } = this.deps()
    const { terms: term } = host
    const askedAt = world.elapsedMs
    const instance = backend.everAt(address.host)
    const isPort = instance?.ports.some((port) => port.public === address.port) === true
    if (instance && !isPort)
      world.violate(`${host.name} probes port ${address.port}, which ${address.host} does not have`)
    if (instance) observer.asked(host, instance)
    return new Promise((resolve, reject) => {
      const end = (why: string) => {
        if (!settle()) return
        if (instance) observer.unanswered(host, term, instance, asked)
        reject(new FleetError('unavailable', why))
      }
      const close = () => void (settle() && reject(new FleetError('unavailable', 'closed')))
      const settle = () => pending.delete(close)
      pending.add(close)
      const soon = (ms: number, fn: () => void) => world.after(ms, () => host.run(fn))
      soon(timeoutMs, () => end('no answer in time'))
      if (!instance?.game?.running) return void soon(world.between(0, 5), () => end('connection refused'))
      if (this.#isLost(host, instance)) return
      const isLate = world.fault('prober: late answer', 0.05)
      const [there, back] = isLate
        ? [world.between(0, timeoutMs), world.between(0, timeoutMs)]
        : [world.between(0, 20), world.between(0, 20)]
      world.after(there, () => {
        if (!instance.game?.answersProbes) return
        const answer = answerOf(instance)
        const players = asked === 'players' ? [...instance.game.players] : undefined
        soon(back, () => {
          // A host that was suspended finds that the time is up.
          if (world.elapsedMs - askedAt > timeoutMs || !settle()) return
          observer.answered(host, term, instance, players)
          resolve(answer)
        })
      })
    })
  }

  #isLost(host: Host, instance: ModelInstance): boolean {
    const { world } = this
    if (!world.faultsEnabled) return false
    if (world.fault('prober: network away', 0.002)) {
      const until = world.elapsedMs + world.between(2_000, 60_000)
      if (world.chance(0.5)) this.#allAwayUntil = until
      else this.#awayUntil.set(host, until)
    }
    if (world.fault('prober: game out of reach', 0.004))
      this.#awayUntil.set(instance, world.elapsedMs + world.between(2_000, 40_000))
    const away = [this.#allAwayUntil, this.#awayUntil.get(host) ?? 0, this.#awayUntil.get(instance) ?? 0]
    return world.elapsedMs < Math.max(...away) || world.fault('prober: answer lost', 0.03)
  }
}

interface Question {
  readonly host: Host
  readonly asked: Asked
  readonly address: ProbeAddress
  readonly timeoutMs: number
  /** What ends each question that is open, for the host's end. */
  readonly pending: Set<() => void>
}
