/** Derives an instance, and what it uses, from the engine's description of a container. Pure. */
import type { Instance, InstanceUsage } from '../../../src/contracts/backend.js'
import { isObject } from '../../../src/rules/validation/problem.js'
import { objectAt } from '../../../src/rules/validation/pod-template.js'
import { type Identity, identityOf } from './labels.js'

export interface Container {
  readonly id: string
  readonly identity: Identity
  readonly status: 'created' | 'running' | 'paused' | 'restarting' | 'removing' | 'exited' | 'dead'
  readonly exitCode: number
  /** In ms of the engine's wall clock; NaN until the container exits. */
  readonly finishedAt: number
  /** The engine's explanation of why the container could not be started or kept running. */
  readonly error: string
  readonly outOfMemory: boolean
  /** In bytes; 0 if there is no limit. */
  readonly memoryLimit: number
  /** The signal that asks the program to stop. */
  readonly stopSignal: string
  readonly command: readonly string[]
  /** Whether the engine keeps its standard input open. */
  readonly openStdin: boolean
  readonly tty: boolean
}

const statuses = ['created', 'running', 'paused', 'restarting', 'removing', 'exited', 'dead'] as const

/** Reads the response to `inspect`. Returns undefined if the container does not belong to this fleet. */
export function readContainer(fleet: string, inspected: unknown): Container | undefined {
  if (!isObject(inspected)) return undefined
  const { Id: id, Config: config, State: state, HostConfig: host } = inspected
  if (typeof id !== 'string' || !isObject(config) || !isObject(state)) return undefined
  const identity = identityOf(fleet, config['Labels'])
  const status = statusOf(state['Status'])
  if (!identity || !status) return undefined
  const memory = isObject(host) ? host['Memory'] : undefined
  const { StopSignal: stopSignal } = config
  return {
    id,
    identity,
    status,
    exitCode: Number(state['ExitCode'] ?? 0),
    finishedAt: timeOf(state['FinishedAt']),
    error: typeof state['Error'] === 'string' ? state['Error'].trim() : '',
    outOfMemory: state['OOMKilled'] === true,
    memoryLimit: typeof memory === 'number' ? memory : 0,
    stopSignal: typeof stopSignal === 'string' && stopSignal !== '' ? stopSignal : 'SIGTERM',
    command: [...strings(config['Entrypoint']), ...strings(config['Cmd'])],
    openStdin: config['OpenStdin'] === true,
    tty: config['Tty'] === true,
  }
}

/** A list entry, which contains less than the response to `inspect`. */
export interface ListedContainer {
  readonly id: string
  readonly identity: Identity
  readonly status: Container['status']
  /** Exit code, taken from `Exited (3) 5 minutes ago`; empty while the container is running. */
  readonly exit: string
}

export function readListed(fleet: string, listed: unknown): ListedContainer | undefined {
  if (!isObject(listed)) return undefined
  const { Id: id, Labels: labels, State: state, Status: text } = listed
  const identity = identityOf(fleet, labels)
  const status = statusOf(state)
  if (typeof id !== 'string' || !identity || !status) return undefined
  return { id, identity, status, exit: /\((-?\d+)\)/.exec(typeof text === 'string' ? text : '')?.[1] ?? '' }
}

/** Whether the program is running or can resume. */
export function isRunning(container: Container | undefined): boolean {
  const status = container?.status
  return status === 'running' || status === 'paused' || status === 'restarting'
}

/** Whether the engine could not run the command, which is final. */
export function isUnrunnable({ status, exitCode, error }: Container): boolean {
  return status === 'created' && error !== '' && (exitCode === 126 || exitCode === 127)
}

export function hasExited({ status }: Container): boolean {
  return status === 'exited' || status === 'dead' || status === 'removing'
}

/**
 * Converts an engine timestamp to Unix milliseconds. Returns NaN for the engine's zero time and for anything else that is not
 * a timestamp.
 */
export function timeOf(text: unknown): number {
  const ms = typeof text === 'string' ? new Date(text).getTime() : NaN
  return ms > 0 ? ms : NaN
}

/** Information that `inspect` does not provide. */
interface Circumstances {
  /** May explain why the command could not be run. */
  readonly lastLogLine?: string
  /** Why the container did not end by itself: its engine went down, or was asked to stop it. */
  readonly interruption?: string | undefined
}

/** What all containers of an engine have in common. */
export type EngineMachine = Pick<Instance, 'inside'> & { readonly node: string }

export function instanceOf(container: Container, machine: EngineMachine, circumstances: Circumstances = {}): Instance {
  const { identity, status, exitCode } = container
  switch (status) {
    case 'running':
    case 'restarting':
      return runningInstance(identity, machine)
    case 'paused':
      return { ...runningInstance(identity, machine), reason: 'the container is paused' }
    case 'created':
      if (!isUnrunnable(container)) {
        return { ...identified(identity, machine), phase: 'pending', reason: 'the container is starting' }
      }
      return { ...identified(identity, machine), phase: 'exited', exitCode, reason: container.error }
    case 'exited':
    case 'dead':
    case 'removing': {
      const ended = { ...identified(identity, machine), phase: 'exited', exitCode } as const
      const { interruption } = circumstances
      if (interruption !== undefined) return { ...ended, interrupted: true, reason: interruption }
      const reason = exitReason(container, circumstances.lastLogLine ?? '')
      return { ...ended, ...(reason !== undefined && { reason }) }
    }
  }
}

export function runningInstance(identity: Identity, machine: EngineMachine): Instance {
  return { ...identified(identity, machine), phase: 'running' }
}

function identified({ ref, uid, address, ports }: Identity, machine: EngineMachine) {
  return { ref, uid, address, ports, ...machine }
}

function exitReason(container: Container, lastLogLine: string): string | undefined {
  const { outOfMemory, memoryLimit, error, exitCode, command } = container
  if (outOfMemory) {
    const limit = memoryLimit > 0 ? ` than its limit of ${Math.round(memoryLimit / 2 ** 20)} MiB` : ' than is available'
    const who = exitCode === 137 ? 'it was killed' : 'one of its processes was killed'
    return `${who} for using more memory${limit}`
  }
  if (error !== '') return error
  if (exitCode !== 126 && exitCode !== 127) return undefined
  // tini, the init process that the game runs under, wrote this line.
  const [, program, why] = /^\[FATAL tini \(\d+\)\] exec (.*) failed: (.*)$/.exec(lastLogLine) ?? []
  return program === undefined ? `the command is ${command.join(' ')}` : `cannot run ${program}: ${why}`
}

function statusOf(text: unknown): Container['status'] | undefined {
  return statuses.find((status) => status === text)
}

function strings(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((part) => typeof part === 'string') : []
}

/** Undefined for a container that does not run: the engine then has no numbers. */
export function usageIn(stats: unknown): InstanceUsage | undefined {
  if (!isObject(stats)) return undefined
  const memory = objectAt(stats, 'memory_stats')
  const detail = objectAt(memory, 'stats')
  const used = memory['usage']
  const cpu = objectAt(objectAt(stats, 'cpu_stats'), 'cpu_usage')['total_usage']
  if (typeof used !== 'number' || typeof cpu !== 'number') return undefined
  // As `docker stats` does: files that the kernel can drop at any time do not count. The names of cgroups 1 and 2.
  const cached = detail['total_inactive_file'] ?? detail['inactive_file']
  return { memoryBytes: used - (typeof cached === 'number' && cached < used ? cached : 0), cpuSeconds: cpu / 1e9 }
}
