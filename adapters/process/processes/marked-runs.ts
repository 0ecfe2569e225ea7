/**
 * Finds running games by the mark in their environment. The mark contains the instance's record, so that an instance whose files
 * are lost, damaged, or older than its process can be recovered.
 */
import { dirname } from 'node:path'
import type { ProcessIdentity } from '../../../src/platform/process-identity.js'
import { isObject } from '../../../src/rules/validation/problem.js'
import { dottedName } from '../../shared/refs.js'
import { roleOf } from './process-group.js'
import type { ProcessSnapshot } from './process-table.js'
import { type InstanceRecord, readRecord } from '../files/record.js'

export interface MarkedRun {
  readonly record: InstanceRecord & { readonly nonce: string }
  /** The process id of the supervisor, which leads the run's session and group. */
  readonly group: number
  /** The supervisor; missing if it was killed. */
  readonly leader?: ProcessIdentity
}

/** The value of the variable. Contains no secret that is not in the game's environment anyway. */
export function encodeMark(instanceDirectory: string, record: InstanceRecord): string {
  return Buffer.from(JSON.stringify({ directory: instanceDirectory, record })).toString('base64url')
}

/** Returns the runs of instances below this directory, by dotted name. */
export function findMarkedRuns({ processes }: ProcessSnapshot, instances: string): ReadonlyMap<string, MarkedRun> {
  const found = new Map<string, MarkedRun>()
  for (const { pid, startedAt, session, recordMark, uid } of processes) {
    // A game that runs as another user could forge the mark of another game.
    const isTrusted = uid === undefined || uid === process.geteuid?.()
    const record = recordMark === undefined || !isTrusted ? undefined : decodeMark(recordMark, instances)
    if (!record) continue
    const name = dottedName(record.ref)
    // A game's child that leads its own session has the mark in its environment only.
    const role = roleOf(pid, record.nonce)
    if (session === pid && role === 'supervisor') {
      found.set(name, { record, group: session, leader: { pid, startedAt } })
    } else if (session !== pid && role !== 'starting' && !found.has(name)) found.set(name, { record, group: session })
  }
  return found
}

function decodeMark(text: string, instances: string): MarkedRun['record'] | undefined {
  const json = parse(Buffer.from(text, 'base64url').toString())
  if (!isObject(json) || typeof json['directory'] !== 'string') return undefined
  if (dirname(json['directory']) !== instances) return undefined
  const record = readRecord(JSON.stringify(json['record']))
  return record?.nonce === undefined ? undefined : { ...record, nonce: record.nonce }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    // Another program's variable.
    return undefined
  }
}
