/**
 * Recovers an earlier host's instances from the files it left on disk. Kills processes only if they carry the mark of a run
 * whose record is lost.
 */
import type { Clock } from '../../src/contracts/clock.js'
import type { Logger } from '../../src/contracts/logger.js'
import { identityOf, type ProcessIdentity } from '../../src/platform/process-identity.js'
import type { FoundInstance, InstanceFiles } from './files.js'
import { GameProcess } from './game-process.js'
import { ManagedInstance } from './managed-instance.js'
import { carriesMark, markedMembers, signalProcess } from './process-group.js'
import type { InstanceRecord } from './record.js'
import { cancelStart, readSupervisorPid } from './supervisor.js'

export interface RecoveryDependencies {
  readonly files: InstanceFiles
  readonly clock: Clock
  readonly logger: Logger
}

/** Rejects if the disk or the processes cannot be read; the caller may try again. */
export async function recoverInstances(deps: RecoveryDependencies): Promise<readonly ManagedInstance[]> {
  const instances: ManagedInstance[] = []
  for (const found of deps.files.find()) {
    const instance = found.record && found.record !== 'unreadable' ? recover(found.record, deps) : undefined
    if (!instance) {
      await discard(found, deps)
      continue
    }
    if (instance.record !== found.record) await deps.files.writeRecord(instance.record)
    instances.push(instance)
  }
  return instances
}

/** Returns undefined if the game was never started and can no longer be started. */
function recover(record: InstanceRecord, { files, clock }: RecoveryDependencies): ManagedInstance | undefined {
  const { ref, nonce, process } = record
  // The command could not be run; the record contains the exit.
  if (nonce === undefined) return new ManagedInstance(record)
  const runDirectory = files.runDirectory(ref, nonce)
  let leader = process
  if (!leader) {
    // The host was killed shortly before or after starting the process.
    if (cancelStart(runDirectory)) return undefined
    leader = supervisorOf(readSupervisorPid(runDirectory), nonce)
  }
  const group = leader?.pid ?? readSupervisorPid(runDirectory)
  // No process id was written, so the supervisor has not started anything.
  if (group === undefined) return undefined
  const game = new GameProcess({
    runDirectory,
    mark: nonce,
    logPath: files.logOf(ref),
    group,
    clock,
    ...(leader ? { leader } : {}),
  })
  return new ManagedInstance(leader ? { ...record, process: leader } : record, game)
}

/** Returns the supervisor that wrote this process id, unless the id now belongs to an unrelated process. */
function supervisorOf(pid: number | undefined, mark: string): ProcessIdentity | undefined {
  if (pid === undefined) return undefined
  const identity = identityOf(pid)
  return identity && carriesMark(pid, mark) ? identity : undefined
}

async function discard(found: FoundInstance, { files, logger }: RecoveryDependencies): Promise<void> {
  const { directory } = found
  if (found.record === 'unreadable') {
    logger.warn({ directory }, 'instance record is unreadable; killing its processes and removing its files')
  } else {
    logger.debug({ directory }, 'removing an instance whose creation or removal was interrupted')
  }
  try {
    for (const nonce of found.nonces) killRun(`${directory}/run-${nonce}`, nonce)
    await files.discard(found)
  } catch (error) {
    logger.warn({ err: error, directory }, 'removing an instance without record failed')
  }
}

function killRun(runDirectory: string, mark: string): void {
  const group = readSupervisorPid(runDirectory)
  if (group === undefined) return
  for (const member of markedMembers(group, mark)) signalProcess(member, 'SIGKILL')
}
