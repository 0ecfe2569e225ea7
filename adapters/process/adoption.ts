/**
 * Finds the instances of an earlier host: reads what it left on disk and says what has become of each. Kills only what
 * carries the mark of a run whose record is lost.
 */
import type { Clock } from '../../src/contracts/clock.js'
import type { Logger } from '../../src/contracts/logger.js'
import { identityOf, type ProcessIdentity } from '../../src/platform/process-identity.js'
import { messageOf } from '../../src/contracts/errors.js'
import { type Entry, newEntry } from './entry.js'
import type { FoundInstance, InstanceFiles } from './files.js'
import { GameProcess } from './game-process.js'
import { carriesMark, markedMembers, signalProcess } from './process-group.js'
import type { InstanceRecord } from './record.js'
import { callOffStart, readSupervisorPid } from './supervisor.js'

export interface AdoptInput {
  readonly files: InstanceFiles
  readonly clock: Clock
  readonly logger: Logger
}

/** Throws when the disk or the processes cannot be read now; nothing is lost by it. */
export async function adoptAll(input: AdoptInput): Promise<readonly Entry[]> {
  const entries: Entry[] = []
  for (const found of input.files.find()) {
    const entry = found.record && found.record !== 'unreadable' ? adopt(found.record, input) : undefined
    if (!entry) {
      await discard(found, input)
      continue
    }
    if (entry.record !== found.record) await input.files.writeRecord(entry.record)
    entries.push(entry)
  }
  return entries
}

/** Undefined when its game was never started, and now never will be. */
function adopt(record: InstanceRecord, { files, clock }: AdoptInput): Entry | undefined {
  const { ref, nonce, process } = record
  // What could not be run at all has its end in its record.
  if (nonce === undefined) return newEntry(record)
  const runDirectory = files.runDirectory(ref, nonce)
  let leader = process
  if (!leader) {
    // The host was killed between the record and the start, or between the start and the record.
    if (callOffStart(runDirectory)) return undefined
    leader = supervisorOf(readSupervisorPid(runDirectory), nonce)
  }
  const group = leader?.pid ?? readSupervisorPid(runDirectory)
  // Without a number there is nothing that could be found, and nothing that was started.
  if (group === undefined) return undefined
  const game = new GameProcess({
    runDirectory,
    mark: nonce,
    logPath: files.logOf(ref),
    group,
    clock,
    ...(leader ? { leader } : {}),
  })
  return newEntry(leader ? { ...record, process: leader } : record, game)
}

/** The supervisor behind a number that it wrote itself, unless a stranger has the number now. */
function supervisorOf(pid: number | undefined, mark: string): ProcessIdentity | undefined {
  if (pid === undefined) return undefined
  const identity = identityOf(pid)
  return identity && carriesMark(pid, mark) ? identity : undefined
}

async function discard(found: FoundInstance, { files, logger }: AdoptInput): Promise<void> {
  const { directory } = found
  if (found.record === 'unreadable') {
    logger.warn({ directory }, 'an instance has no readable record: its processes are killed and its files removed')
  } else {
    logger.debug({ directory }, 'an instance whose creation or removal was cut short is removed')
  }
  try {
    for (const nonce of found.nonces) killRun(`${directory}/run-${nonce}`, nonce)
    await files.discard(found)
  } catch (error) {
    logger.warn({ err: error, directory }, `an instance without record could not be removed: ${messageOf(error)}`)
  }
}

function killRun(runDirectory: string, mark: string): void {
  const group = readSupervisorPid(runDirectory)
  if (group === undefined) return
  for (const member of markedMembers(group, mark)) signalProcess(member, 'SIGKILL')
}
