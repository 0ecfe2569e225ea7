/** The model of a machine that runs instances: what really runs, told by calls that fail and events that get lost. */
import type { Backend, BackendListener, Instance, InstanceSpec } from '../../contracts/backend.js'
import { FleetError } from '../../contracts/errors.js'
import { keyOf } from '../../rules/model/resources.js'
import type { Heartbeat, HeartbeatAnswer } from '../../rules/game/heartbeat.js'
import { candidatePorts, type PortRange } from '../../rules/model/ports.js'
import { call, type CallOptions } from './calls.js'
import { type Character, GameModel } from './game-model.js'
import type { Host } from './host.js'
import type { World } from './world.js'

export interface ModelInstance {
  readonly spec: InstanceSpec
  readonly address: string
  readonly ports: Instance['ports']
  phase: Instance['phase']
  exitCode?: number
  game: GameModel | undefined
  /** Elapsed ms at which its process began. */
  runsSince: number
  /** Who heard its last heartbeat, and when. */
  heard: { readonly by: Host; readonly at: number } | undefined
}

export interface BackendModelWires {
  readonly character: (spec: InstanceSpec) => Character
  readonly longestMatchMs: number
  /** The fleet asks for an instance; a word is the reason why it cannot have it. */
  readonly asked: (spec: InstanceSpec) => string | undefined
  /** Brings a heartbeat to whichever host answers. */
  readonly heartbeat: (instance: ModelInstance, heartbeat: Heartbeat) => HeartbeatAnswer | undefined
  /** The game of an instance was told of a session. */
  readonly told: (instance: ModelInstance, sessionID: string) => void
  /** The instance is about to be ended by the fleet while its process runs. */
  readonly ending: (instance: ModelInstance) => void
}

interface Ears {
  readonly listener: BackendListener
  deafUntil: number
}

export class BackendModel {
  readonly instances = new Map<string, ModelInstance>()
  /** Uids of instances that were removed by hand. */
  readonly vanished = new Set<string>()
  /** Codes with which processes ended, by the uid of their instances: one may have been created twice. */
  readonly exits = new Map<string, readonly number[]>()
  /** Uids of instances that the fleet removed; likewise. */
  readonly removed = new Set<string>()
  readonly #ears = new Map<Host, Ears>()
  #awayUntil = 0
  #addresses = 0
  #lastPort = 0
  /** Calls so far that were to start or to end something. */
  calls = 0

  constructor(
    readonly world: World,
    readonly faultiness: number,
    readonly range: PortRange,
    readonly wires: BackendModelWires,
  ) {}

  get away(): boolean {
    return this.world.elapsedMs < this.#awayUntil
  }

  goAway(ms: number): void {
    this.#awayUntil = this.world.elapsedMs + ms
  }

  /** One host hears no events for a while; `told`: it is told afterwards that it missed some. */
  deafen(host: Host, ms: number, told: boolean): void {
    const ears = this.#ears.get(host)
    if (!ears) return
    ears.deafUntil = this.world.elapsedMs + ms
    if (told) this.world.after(ms, () => host.run(() => this.#ears.get(host)?.listener.resync()))
  }

  /** A host that is gone hears nothing any more. */
  forget(host: Host): void {
    this.#ears.delete(host)
  }

  isDeaf(host: Host): boolean {
    return this.world.elapsedMs < (this.#ears.get(host)?.deafUntil ?? 0)
  }

  /** Removed by hand, as an operator of the machine would: no exit code, no instance. `told`: the hosts may hear of it. */
  vanish(instance: ModelInstance, told: boolean): void {
    this.instances.delete(keyOf(instance.spec.ref))
    this.vanished.add(instance.spec.uid)
    instance.game?.disappear()
    if (told) this.#tell((listener) => listener.gone(instance.spec.ref, instance.spec.uid))
  }

  for(host: Host): Backend {
    const { world } = this
    const options: CallOptions = {
      of: 'backend',
      away: () => this.away,
      mute: () => false,
      latencyMs: [1, 200],
      faultiness: this.faultiness,
      far: true,
    }
    return {
      name: 'model',
      capabilities: { template: 'pod', agent: false },
      defaultStore: { kind: 'memory' },
      create: (spec) => {
        this.calls++
        host.acts('backend')
        const refusal = this.wires.asked(spec)
        return call(world, host, options, () => {
          if (refusal !== undefined) throw new FleetError('unavailable', refusal)
          return this.#create(spec)
        })
      },
      destroy: (ref, uid, { graceMs }) => {
        this.calls++
        host.acts('backend')
        return call(world, host, options, () => this.#destroy(keyOf(ref), uid, graceMs))
      },
      list: () => call(world, host, options, () => [...this.instances.values()].map(shown)),
      watch: (listener) => {
        this.#ears.set(host, { listener, deafUntil: 0 })
        return () => this.#ears.delete(host)
      },
      close: () => {
        this.#ears.delete(host)
        return Promise.resolve()
      },
    }
  }

  #create(spec: InstanceSpec): Instance {
    const key = keyOf(spec.ref)
    const there = this.instances.get(key)
    if (there?.spec.uid === spec.uid) return shown(there)
    if (there) throw new FleetError('conflict', `${key} is another instance`)
    const address = `10.0.${this.#addresses >> 8}.${this.#addresses++ & 255}`
    const ports = this.#takePorts(spec.portsToExpose)
    const instance: ModelInstance = {
      spec,
      address,
      ports,
      phase: 'pending',
      game: undefined,
      runsSince: 0,
      heard: undefined,
    }
    this.instances.set(key, instance)
    if (this.world.chance(0.5)) this.#begin(instance)
    else this.world.after(this.world.between(10, 5_000), () => this.#begin(instance))
    return shown(instance)
  }

  #takePorts(containers: readonly number[]): Instance['ports'] {
    const held = new Set([...this.instances.values()].flatMap((one) => one.ports.map((port) => port.public)))
    return containers.map((container) => {
      const [port] = candidatePorts(this.range, held, this.#lastPort)
      if (port === undefined) {
        const size = this.range.last - this.range.first + 1
        if (held.size < size)
          this.world.breach(`a port was not returned: ${held.size} of ${size} are held, none is free`)
        throw new FleetError('ports-exhausted', 'no port is free')
      }
      held.add(port)
      this.#lastPort = port
      return { container, public: port }
    })
  }

  #begin(instance: ModelInstance): void {
    const { spec } = instance
    if (this.instances.get(keyOf(spec.ref)) !== instance) return
    instance.phase = 'running'
    instance.runsSince = this.world.elapsedMs
    instance.game = new GameModel(this.world, this.wires.character(spec), this.wires.longestMatchMs, {
      send: (heartbeat) => this.wires.heartbeat(instance, heartbeat),
      told: (sessionID) => this.wires.told(instance, sessionID),
      exited: (code) => {
        instance.phase = 'exited'
        instance.exitCode = code
        this.exits.set(spec.uid, [...(this.exits.get(spec.uid) ?? []), code])
        this.world.note(`instance ${spec.ref.name} exited with ${code}`)
        this.#tellChanged(instance)
      },
    })
    this.#tellChanged(instance)
  }

  /** As it was when it happened, however late it is heard. */
  #tellChanged(instance: ModelInstance): void {
    const then = shown(instance)
    this.#tell((listener) => listener.changed(then))
  }

  #destroy(key: string, uid: string, graceMs: number): Promise<void> | undefined {
    const instance = this.instances.get(key)
    if (!instance || instance.spec.uid !== uid) return undefined
    const remove = () => {
      if (this.instances.get(key) !== instance) return
      this.instances.delete(key)
      this.removed.add(uid)
      this.#tell((listener) => listener.gone(instance.spec.ref, uid))
    }
    const { game } = instance
    if (!game?.running) {
      remove()
      return undefined
    }
    this.wires.ending(instance)
    return new Promise((resolve) => {
      const poll = () => {
        if (this.instances.get(key) !== instance) return resolve()
        if (game.running) return void this.world.after(100, poll)
        remove()
        return resolve()
      }
      game.terminate(graceMs, () => game.exit(137))
      poll()
    })
  }

  /** Each listener hears late, twice, out of order, or not at all. */
  #tell(event: (listener: BackendListener) => void): void {
    for (const [host, ears] of this.#ears) {
      if (this.world.elapsedMs < ears.deafUntil || this.world.fault('event: lost', 0.02)) continue
      const deliver = () => host.run(() => event(ears.listener))
      this.world.after(this.world.between(0, 50), deliver)
      if (this.world.fault('event: repeated', 0.03)) this.world.after(this.world.between(0, 5_000), deliver)
    }
  }
}

function shown(instance: ModelInstance): Instance {
  const { spec, phase, address, ports, exitCode } = instance
  return {
    ref: spec.ref,
    uid: spec.uid,
    phase,
    ...(exitCode !== undefined && { exitCode }),
    ...(phase !== 'pending' && { address, node: 'node' }),
    ports: phase === 'pending' ? [] : ports,
  }
}
