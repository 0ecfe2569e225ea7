/** Reads what the engine says of a container: which instance it is, and how it is. Pure. */
import type { Instance } from '../../src/contracts/backend.js'
import { isObject } from '../../src/rules/validation/problem.js'
import { type Identity, identityOf } from './labels.js'

export interface Container {
  readonly id: string
  readonly identity: Identity
  readonly status: 'created' | 'running' | 'paused' | 'restarting' | 'removing' | 'exited' | 'dead'
  readonly exitCode: number
  /** In ms of the engine's wall time; NaN while it has not ended. */
  readonly finishedAt: number
  /** In the engine's words, why it could not be started or kept running. */
  readonly error: string
  readonly outOfMemory: boolean
  /** Of its limit in bytes; 0 without one. */
  readonly memory: number
  /** What asks its program to end. */
  readonly stopSignal: string
  readonly command: readonly string[]
}

const statuses = ['created', 'running', 'paused', 'restarting', 'removing', 'exited', 'dead'] as const

/** Reads the answer of `inspect`; undefined when it is no container of this fleet. */
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
    memory: typeof memory === 'number' ? memory : 0,
    stopSignal: typeof stopSignal === 'string' && stopSignal !== '' ? stopSignal : 'SIGTERM',
    command: [...strings(config['Entrypoint']), ...strings(config['Cmd'])],
  }
}

/** One of a list, which tells less than `inspect`. */
export interface Listed {
  readonly id: string
  readonly identity: Identity
  readonly status: Container['status']
  /** `Exited (3) 5 minutes ago`: changes whenever it ends anew. */
  readonly exit: string
}

export function readListed(fleet: string, listed: unknown): Listed | undefined {
  if (!isObject(listed)) return undefined
  const { Id: id, Labels: labels, State: state, Status: text } = listed
  const identity = identityOf(fleet, labels)
  const status = statusOf(state)
  if (typeof id !== 'string' || !identity || !status) return undefined
  return { id, identity, status, exit: /\((-?\d+)\)/.exec(typeof text === 'string' ? text : '')?.[1] ?? '' }
}

/** True when the engine could not run its command: it never will. */
export function isUnrunnable({ status, exitCode, error }: Container): boolean {
  return status === 'created' && error !== '' && (exitCode === 126 || exitCode === 127)
}

export function hasEnded({ status }: Container): boolean {
  return status === 'exited' || status === 'dead' || status === 'removing'
}

/** The wall time in ms of what the engine writes; NaN for a time that never was. */
export function timeOf(text: unknown): number {
  const ms = typeof text === 'string' ? new Date(text).getTime() : NaN
  return ms > 0 ? ms : NaN
}

/** What else is known of it. */
export interface Circumstances {
  /** What it has written last, which says why it never came to run. */
  readonly lastWords?: string
  /** Its engine has been started anew since it ended. */
  readonly endedWithEngine?: boolean
}

export function instanceOf(container: Container, node: string, circumstances: Circumstances = {}): Instance {
  const { identity, status, exitCode } = container
  switch (status) {
    case 'running':
    case 'restarting':
      return runningInstance(identity, node)
    case 'paused':
      return { ...runningInstance(identity, node), reason: 'it is paused' }
    case 'created':
      if (!isUnrunnable(container)) {
        return { ...knownOf(identity, node), phase: 'pending', reason: 'it is being started' }
      }
      return { ...knownOf(identity, node), phase: 'exited', exitCode, reason: container.error }
    case 'exited':
    case 'dead':
    case 'removing': {
      const ended = { ...knownOf(identity, node), phase: 'exited', exitCode } as const
      if (circumstances.endedWithEngine) return { ...ended, interrupted: true, reason: 'the Docker engine went down' }
      const reason = exitReason(container, circumstances.lastWords ?? '')
      return { ...ended, ...(reason !== undefined && { reason }) }
    }
  }
}

export function runningInstance(identity: Identity, node: string): Instance {
  return { ...knownOf(identity, node), phase: 'running' }
}

function knownOf({ ref, uid, address, ports }: Identity, node: string) {
  return { ref, uid, address, node, ports }
}

function exitReason(container: Container, lastWords: string): string | undefined {
  const { outOfMemory, memory, error, exitCode, command } = container
  if (outOfMemory) {
    const limit = memory > 0 ? ` than its limit of ${Math.round(memory / 2 ** 20)} MiB` : ' than there is'
    const who = exitCode === 137 ? 'it was killed' : 'one of its processes was killed'
    return `${who} for using more memory${limit}`
  }
  if (error !== '') return error
  if (exitCode !== 126 && exitCode !== 127) return undefined
  // Said by the small init process under which games run.
  const [, program, why] = /^\[FATAL tini \(\d+\)\] exec (.*) failed: (.*)$/.exec(lastWords) ?? []
  return program === undefined ? `what runs is ${command.join(' ')}` : `cannot run ${program}: ${why}`
}

function statusOf(text: unknown): Container['status'] | undefined {
  return statuses.find((status) => status === text)
}

function strings(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((part) => typeof part === 'string') : []
}
