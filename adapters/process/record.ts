/** The record of an instance in its `instance.json`: enough to find its process and to report how it ended. Pure. */
import type { ProcessIdentity } from '../../src/platform/process-identity.js'
import { isPort } from '../../src/rules/model/ports.js'
import type { PortPair, Ref } from '../../src/rules/model/resources.js'
import { isObject } from '../../src/rules/validation/problem.js'

export interface InstanceRecord {
  readonly version: 1
  readonly ref: Ref
  readonly uid: string
  readonly address: string
  readonly node: string
  /** In the order of `portsToExpose`. */
  readonly ports: readonly PortPair[]
  /** Names the directory of the run and marks its processes. Absent when the command could not be run. */
  readonly nonce?: string
  /** The supervisor. Absent until it is started; still absent if the host was killed at that moment. */
  readonly process?: ProcessIdentity
  readonly exit?: Exit
}

export interface Exit {
  /** 128 + n for signal n; absent when unknown. */
  readonly code?: number
  readonly reason: string
}

/** Undefined when the text is not a record of this version. */
export function readRecord(text: string): InstanceRecord | undefined {
  const json = parse(text)
  if (!isObject(json) || json['version'] !== 1) return undefined
  const { uid, address, node, nonce } = json
  const ref = readRef(json['ref'])
  const ports = readPorts(json['ports'])
  if (!ref || !ports || typeof uid !== 'string' || typeof address !== 'string' || typeof node !== 'string') {
    return undefined
  }
  if (nonce !== undefined && !(typeof nonce === 'string' && /^[0-9a-f]+$/.test(nonce))) return undefined
  const process = json['process'] === undefined ? undefined : readIdentity(json['process'])
  const exit = json['exit'] === undefined ? undefined : readExit(json['exit'])
  if (process === 'unreadable' || exit === 'unreadable') return undefined
  return {
    version: 1,
    ref,
    uid,
    address,
    node,
    ports,
    ...(nonce === undefined ? {} : { nonce }),
    ...(process === undefined ? {} : { process }),
    ...(exit === undefined ? {} : { exit }),
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    // An incomplete file is no record, like any other text.
    return undefined
  }
}

function readRef(value: unknown): Ref | undefined {
  if (!isObject(value)) return undefined
  const { namespace, name } = value
  return typeof namespace === 'string' && typeof name === 'string' ? { namespace, name } : undefined
}

function readPorts(value: unknown): readonly PortPair[] | undefined {
  if (!Array.isArray(value)) return undefined
  const pairs: PortPair[] = []
  for (const pair of value) {
    if (!isObject(pair) || !isPort(pair['container']) || !isPort(pair['public'])) return undefined
    pairs.push({ container: pair['container'], public: pair['public'] })
  }
  return pairs
}

function readIdentity(value: unknown): ProcessIdentity | 'unreadable' {
  if (!isObject(value)) return 'unreadable'
  const { pid, startedAt } = value
  // To kill(2), ids below 1 mean groups or all processes, and 1 is init.
  if (typeof pid !== 'number' || !Number.isInteger(pid) || pid <= 1) return 'unreadable'
  return typeof startedAt === 'string' ? { pid, startedAt } : 'unreadable'
}

function readExit(value: unknown): Exit | 'unreadable' {
  if (!isObject(value)) return 'unreadable'
  const { code, reason } = value
  if (typeof reason !== 'string') return 'unreadable'
  if (code === undefined) return { reason }
  return typeof code === 'number' && Number.isInteger(code) ? { code, reason } : 'unreadable'
}
