/** Models an orchestrator that runs instances. Calls to it may fail and its events may be lost. */
import type { Backend, BackendListener, Instance, InstanceSpec, LogsOptions } from '../../../src/contracts/backend.js'
import { FleetError } from '../../../src/contracts/errors.js'
import type { Heartbeat, HeartbeatAnswer } from '../../../src/rules/game/heartbeat.js'
import { candidatePorts, type PortRange } from '../../../src/rules/model/ports.js'
import { keyOf, type Ref } from '../../../src/rules/model/resources.js'
import type { GameServer } from '../../../src/rules/model/wire.js'
import { endsByLog, sessionInLine } from '../actors/probed-specs.js'
import type { Host } from '../world/host.js'
import type { World } from '../world/world.js'
import { GameLog, readLog } from './game-log.js'
import { GameModel } from './game-model.js'
import type { ModelInstance } from './model-instance.js'
export type { ModelInstance } from './model-instance.js'
import type { Rooms } from './rooms.js'
import { type GameBehavior, withoutSdk } from './unusual-behaviors.js'
import type { StartHangs } from './start-hangs.js'
import { remoteCall, type RemoteCallOptions } from './remote-call.js'

export interface BackendModelDependencies {
  readonly startHangs: StartHangs
  readonly behaviorOf: (spec: InstanceSpec) => GameBehavior
  readonly longestMatchMs: number
  /**
   * Called when the fleet creates an instance. `refusal`: the reason if the instance cannot be created. `hangs`: the call gets
   * no answer. `answered` is called with the answer.
   */
  readonly onCreate: (
    host: Host,
    spec: InstanceSpec,
  ) => { readonly refusal: string | undefined; readonly hangs: boolean; readonly answered: () => void }
  /** Delivers a heartbeat to a responsive host. With `later`, the host may hold its answer. */
  readonly heartbeat: (
    instance: ModelInstance,
    heartbeat: Heartbeat,
    later?: (answer: HeartbeatAnswer) => void,
  ) => HeartbeatAnswer | undefined
  /** Called when the game of an instance receives a session. */
  readonly onSession: (instance: ModelInstance, sessionID: string) => void
  /** The sessions of the game of an instance, if it takes several. */
  readonly roomsOf: (instance: ModelInstance) => Rooms | undefined
  /** Called when the game of an instance ends its session and goes on. */
  readonly onSessionEnd: (instance: ModelInstance, sessionID: string) => void
  /** Called before an instance whose process is running gets its termination signal. */
  readonly onSignal: (instance: ModelInstance, host: Host) => void
  /** Called before a running instance is killed because its grace period is over. */
  readonly onKill: (instance: ModelInstance) => void
  /** Called when a host writes a line to the standard input of a game. */
  readonly onTell: (host: Host, ref: Ref, line: string) => Telling
}

/** A call that tells a game of its session. */
export interface Telling {
  /** Called before the game reads the line. */
  arrived(instance: ModelInstance): void
  /** Called when the host knows that the line is written. */
  answered(): void
}

/** Reasons why a create fails until something outside the fleet changes. The fleet reports these messages unchanged. */
export const createRefusals = { noFreePort: 'no port is free', noSuchImage: 'no such image' } as const

/** True if the fleet has no way of starting this server. */
export function cannotBeCreated({ status }: GameServer): boolean {
  return Object.values(createRefusals).some((message) => message === status.message)
}

/** The node of all instances. */
export const modelNode = 'node'

interface Watch {
  readonly listener: BackendListener
  interruptedUntil: number
}

export class BackendModel {
  readonly instances = new Map<string, ModelInstance>()
  /** Uids of instances that were deleted externally. */
  readonly deletedExternally = new Set<string>()
  /** Exit codes by instance uid. There may be several, since an instance may be created twice. */
  readonly exits = new Map<string, readonly number[]>()
  /** Uids of instances that the fleet deleted. */
  readonly removed = new Set<string>()
  /** All instances of the run, by address. */
  readonly #created = new Map<string, ModelInstance>()
  readonly #watches = new Map<Host, Watch>()
  #unavailableUntil = 0
  #addresses = 0
  #lastPort = 0
  /** Number of create and delete calls so far. */
  calls = 0

  constructor(
    readonly world: World,
    readonly faultRate: number,
    readonly range: PortRange,
    readonly deps: BackendModelDependencies,
  ) {}

  get unavailable(): boolean {
    return this.world.elapsedMs < this.#unavailableUntil
  }

  /** True if a port is free that an instance can run with. */
  get hasUsablePort(): boolean {
    return !candidatePorts(this.range, this.#takenPorts().add(this.deps.startHangs.heldPort ?? NaN), 0).next().done
  }

  instanceAt(address: string): ModelInstance | undefined {
    return [...this.instances.values()].find((one) => one.address === address)
  }

  /** Like `instanceAt`, but also if it is gone, which a host may not know. */
  everAt(address: string): ModelInstance | undefined {
    return this.#created.get(address)
  }

  makeUnavailable(ms: number): void {
    this.#unavailableUntil = this.world.elapsedMs + ms
  }

  /** Interrupts one host's watch. `resync`: whether the host gets a resync afterwards. */
  interruptWatch(host: Host, ms: number, resync: boolean): void {
    const watch = this.#watches.get(host)
    if (!watch) return
    watch.interruptedUntil = this.world.elapsedMs + ms
    if (resync) this.world.after(ms, () => host.run(() => this.#watches.get(host)?.listener.resync()))
  }

  /** Closes the watch of a host that has stopped. */
  disconnect(host: Host): void {
    this.#watches.delete(host)
  }

  isWatchInterrupted(host: Host): boolean {
    return this.world.elapsedMs < (this.#watches.get(host)?.interruptedUntil ?? 0)
  }

  /** Deletes an instance externally, without an exit code. `notify`: whether watches report the deletion. */
  deleteExternally(instance: ModelInstance, notify: boolean): void {
    this.instances.delete(keyOf(instance.spec.ref))
    this.deletedExternally.add(instance.spec.uid)
    instance.game?.kill()
    if (notify) this.#notify((listener) => listener.gone(instance.spec.ref, instance.spec.uid))
  }

  for(host: Host): Backend {
    const { world } = this
    const options: RemoteCallOptions = {
      of: 'backend',
      isUnavailable: () => this.unavailable,
      dropsReplies: () => false,
      latencyMs: [1, 200],
      faultRate: this.faultRate,
      remote: true,
    }
    return {
      name: 'model',
      // Only games of backends with an agent are probed. Its address is given, so that no fleet starts one.
      capabilities: { template: 'pod', agent: world.probedBuilds.length > 0 },
      defaultStore: { kind: 'memory' },
      create: (spec, { signal } = {}) => {
        this.calls++
        host.beforeChange('backend')
        const { refusal, hangs, answered } = this.deps.onCreate(host, spec)
        signal?.addEventListener('abort', answered)
        if (hangs) return new Promise(() => {})
        return remoteCall(world, host, options, () => {
          if (refusal !== undefined) throw new FleetError('unavailable', refusal)
          return this.#create(spec)
        }).finally(() => {
          signal?.removeEventListener('abort', answered)
          answered()
        })
      },
      destroy: (ref, uid, { graceMs }) => {
        this.calls++
        host.beforeChange('backend')
        return remoteCall(world, host, options, () => this.#destroy(host, keyOf(ref), uid, graceMs))
      },
      writeStdin: async (ref, line) => {
        this.calls++
        host.beforeChange('backend')
        const telling = this.deps.onTell(host, ref, line)
        await remoteCall(world, host, options, () => this.#writeStdin(ref, line, telling))
        telling.answered()
      },
      ...(world.probedBuilds.length > 0 && {
        logs: (ref: Ref, how?: LogsOptions) => readLog(world, host, () => this.instances.get(keyOf(ref))?.log, how),
      }),
      list: () => remoteCall(world, host, options, () => [...this.instances.values()].map(toInstance)),
      watch: (listener) => {
        this.#watches.set(host, { listener, interruptedUntil: 0 })
        return () => this.#watches.delete(host)
      },
      close: () => {
        this.#watches.delete(host)
        return Promise.resolve()
      },
    }
  }

  #create(spec: InstanceSpec): Instance {
    const key = keyOf(spec.ref)
    const existing = this.instances.get(key)
    if (existing?.spec.uid === spec.uid) return toInstance(existing)
    if (existing) throw new FleetError('conflict', `${key} is another instance`)
    const address = `10.0.${this.#addresses >> 8}.${this.#addresses++ & 255}`
    const ports = this.#takePorts(spec.portsToExpose)
    const hangsMs = this.deps.startHangs.durationMs(ports)
    const instance: ModelInstance = {
      spec,
      address,
      ports,
      phase: 'pending',
      hangs: hangsMs > 0,
      game: undefined,
      log: new GameLog(),
      runningSince: 0,
      lastHeartbeat: undefined,
    }
    this.instances.set(key, instance)
    this.#created.set(address, instance)
    if (hangsMs === Infinity) return toInstance(instance)
    if (hangsMs > 0) this.world.after(hangsMs, () => this.#start(instance))
    else if (this.world.chance(0.5)) this.#start(instance)
    else this.world.after(this.world.between(10, 5_000), () => this.#start(instance))
    return toInstance(instance)
  }

  #writeStdin(ref: Ref, line: string, telling: Telling): void {
    const instance = this.instances.get(keyOf(ref))
    const session = sessionInLine(line)
    if (!instance?.game?.running) throw new FleetError('not-found', `${ref.name} does not run`)
    if (session === undefined) return this.world.violate(`${ref.name} is told ${JSON.stringify(line)}`)
    telling.arrived(instance)
    instance.game.told(session)
  }

  #takePorts(containers: readonly number[]): Instance['ports'] {
    const held = this.#takenPorts()
    let last = this.#lastPort
    const ports = containers.map((container) => {
      const [port] = candidatePorts(this.range, held, last)
      if (port === undefined) {
        const size = this.range.last - this.range.first + 1
        if (held.size < size)
          this.world.violate(`a port was not released: ${held.size} of ${size} are in use, but none is free`)
        throw new FleetError('ports-exhausted', createRefusals.noFreePort)
      }
      held.add(port)
      last = port
      return { container, public: port }
    })
    // Only now, as the real backends do: else a server that needs two ports might be offered the same ones for ever.
    this.#lastPort = last
    return ports
  }

  #takenPorts(): Set<number> {
    return new Set([...this.instances.values()].flatMap((one) => one.ports.map((port) => port.public)))
  }

  #start(instance: ModelInstance): void {
    const { spec } = instance
    if (this.instances.get(keyOf(spec.ref)) !== instance) return
    instance.phase = 'running'
    instance.runningSince = this.world.elapsedMs
    const isProbed = this.world.probedBuilds.includes(spec.build.name)
    const behavior = this.deps.behaviorOf(spec)
    instance.game = new GameModel(this.world, isProbed ? withoutSdk(behavior) : behavior, this.deps.longestMatchMs, {
      send: (heartbeat, later) => this.deps.heartbeat(instance, heartbeat, later),
      onSession: (sessionID) => this.deps.onSession(instance, sessionID),
      onSessionEnd: (sessionID) => this.deps.onSessionEnd(instance, sessionID),
      rooms: this.deps.roomsOf(instance),
      isProbed,
      log: endsByLog(this.world, spec.build.name) ? instance.log : undefined,
      onExit: (code) => {
        instance.log.end()
        instance.phase = 'exited'
        instance.exitCode = code
        this.exits.set(spec.uid, [...(this.exits.get(spec.uid) ?? []), code])
        this.world.note(`instance ${spec.ref.name} exited with ${code}`)
        this.#notifyChanged(instance)
      },
    })
    this.#notifyChanged(instance)
  }

  /** Captures the instance at send time; a delayed event still carries that version. */
  #notifyChanged(instance: ModelInstance): void {
    const current = toInstance(instance)
    this.#notify((listener) => listener.changed(current))
  }

  #destroy(host: Host, key: string, uid: string, graceMs: number): Promise<void> | undefined {
    const instance = this.instances.get(key)
    if (!instance || instance.spec.uid !== uid) return undefined
    const remove = (): undefined => {
      if (this.instances.get(key) !== instance) return
      this.instances.delete(key)
      this.removed.add(uid)
      this.#notify((listener) => listener.gone(instance.spec.ref, uid))
    }
    const { game } = instance
    if (!game?.running) return remove()
    this.deps.onSignal(instance, host)
    return new Promise((resolve) => {
      const poll = () => {
        if (this.instances.get(key) !== instance) return resolve()
        if (game.running) return void this.world.after(100, poll)
        remove()
        return resolve()
      }
      game.signal(graceMs, () => {
        if (!game.running) return
        this.deps.onKill(instance)
        game.exit(137)
      })
      poll()
    })
  }

  /** Sends an event to all watches. It may arrive late, twice, out of order or not at all. */
  #notify(event: (listener: BackendListener) => void): void {
    for (const [host, watch] of this.#watches) {
      if (this.world.elapsedMs < watch.interruptedUntil || this.world.fault('backend watch: lost event', 0.02)) continue
      const deliver = () => host.run(() => event(watch.listener))
      this.world.after(this.world.between(0, 50), deliver)
      if (this.world.fault('backend watch: repeated event', 0.03))
        this.world.after(this.world.between(0, 5_000), deliver)
    }
  }
}

function toInstance(instance: ModelInstance): Instance {
  const { spec, phase, address, ports, exitCode } = instance
  return {
    ref: spec.ref,
    uid: spec.uid,
    phase,
    ...(exitCode !== undefined && { exitCode }),
    ...(phase !== 'pending' && { address, node: modelNode }),
    ports: phase === 'pending' ? [] : ports,
  }
}
