/**
 * An instance's record, stored in its `instance.json`. It contains enough to find the instance's process and to report how it
 * exited. Pure.
 */
import type { InstanceOrigin } from '../../../src/contracts/backend.js'
import type { ProcessIdentity } from '../../../src/platform/process-identity.js'
import { readInstanceNumber } from '../../../src/rules/game/sdk-config.js'
import { isPort } from '../../../src/rules/model/ports.js'
import type { PortPair, Ref } from '../../../src/rules/model/resources.js'
import { isObject } from '../../../src/rules/validation/problem.js'

export interface InstanceRecord {
  readonly version: 1
  readonly ref: Ref
  readonly uid: string
  readonly address: string
  readonly node: string
  /** `serverInstanceNumber` of the game's SDK configuration: unique among the fleet's instances on this machine. */
  readonly instanceNumber: number
  /** In the same order as `portsToExpose`. */
  readonly ports: readonly PortPair[]
  /** Part of the run directory's name, and the mark of the run's processes. Missing if the command could not be run. */
  readonly nonce?: string
  /** Identity of the supervisor. Missing until the supervisor is started, and also if the host was killed at that moment. */
  readonly process?: ProcessIdentity
  /** The server's user, if no other server has it. */
  readonly uidOfGame?: number
  readonly exit?: Exit
  /** Missing if it is unreadable. */
  readonly origin?: InstanceOrigin
}

export interface Exit {
  /** 128 + n for signal n; missing if unknown. */
  readonly code?: number
  readonly reason: string
}

/** Returns undefined if the text is not a record in this version's format. */
export function readRecord(text: string): InstanceRecord | undefined {
  const json = parse(text)
  if (!isObject(json) || json['version'] !== 1) return undefined
  const { uid, address, node, nonce } = json
  const instanceNumber = readInstanceNumber(json['instanceNumber'])
  const ref = readRef(json['ref'])
  const ports = readPorts(json['ports'])
  if (!ref || !ports || instanceNumber === undefined) return undefined
  if (typeof uid !== 'string' || typeof address !== 'string' || typeof node !== 'string') {
    return undefined
  }
  if (nonce !== undefined && !(typeof nonce === 'string' && /^[0-9a-f]+$/.test(nonce))) return undefined
  const uidOfGame = json['uidOfGame']
  // A record may not name root, all of whose processes would be ended with the server.
  if (uidOfGame !== undefined && !(typeof uidOfGame === 'number' && Number.isInteger(uidOfGame) && uidOfGame > 0)) {
    return undefined
  }
  const process = json['process'] === undefined ? undefined : readIdentity(json['process'])
  const exit = json['exit'] === undefined ? undefined : readExit(json['exit'])
  if (process === 'unreadable' || exit === 'unreadable') return undefined
  const origin = readOrigin(json['origin'])
  return {
    version: 1,
    ref,
    uid,
    address,
    node,
    instanceNumber,
    ports,
    ...(nonce === undefined ? {} : { nonce }),
    ...(process === undefined ? {} : { process }),
    ...(uidOfGame === undefined ? {} : { uidOfGame }),
    ...(exit === undefined ? {} : { exit }),
    ...(origin === undefined ? {} : { origin }),
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    // An incomplete file, like any other invalid JSON, is not a record.
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
  // Ids below 1 would make kill(2) signal a group or all processes, and 1 is init.
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

/** Not needed to find and end the instance, so one in another format does not make the record unreadable. */
function readOrigin(value: unknown): InstanceOrigin | undefined {
  if (!isObject(value) || !isObject(value['build'])) return undefined
  const { sessionHostId } = value
  const { namespace, name, uid } = value['build']
  if (typeof namespace !== 'string' || typeof name !== 'string' || typeof uid !== 'string') return undefined
  return typeof sessionHostId === 'string' ? { build: { namespace, name, uid }, sessionHostId } : undefined
}
