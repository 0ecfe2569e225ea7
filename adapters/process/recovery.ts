/**
 * Recovers an earlier host's instances from the files it left on disk and from the marks of running games. A game whose files are
 * lost, damaged, or older than the game is recovered from its mark. Ends no process, except those of an instance whose game was
 * never started.
 */
import type { Clock } from '../../src/contracts/clock.js'
import type { Logger } from '../../src/contracts/logger.js'
import { processIdentity, type ProcessIdentity } from '../../src/platform/process-identity.js'
import { dottedName } from '../shared/backend-lifecycle.js'
import type { FoundInstance, InstanceFiles } from './files/instance-files.js'
import { GameProcess, ManagedInstance } from './run/game-process.js'
import { carriesMark, findMarkedRuns, type MarkedRun, type ProcessSnapshot, type ProcessTable } from './processes.js'
import type { InstanceRecord } from './files/record.js'
import { cancelStart, readSupervisorPid } from './run/supervisor.js'

interface RecoveryDependencies {
  readonly files: InstanceFiles
  readonly processes: ProcessTable
  readonly clock: Clock
  readonly logger: Logger
}

/** Rejects if the disk or the processes cannot be read; the caller may try again. */
export async function recoverInstances(deps: RecoveryDependencies): Promise<readonly ManagedInstance[]> {
  const instances: ManagedInstance[] = []
  const snapshot = await deps.processes.snapshot()
  const runs = new Map(findMarkedRuns(snapshot, deps.files.instances))
  for (const found of deps.files.find()) {
    const run = runs.get(found.name)
    runs.delete(found.name)
    const isOfRun = run !== undefined && !describes(found, run)
    const instance = isOfRun ? await recoverRun(run, deps) : recoverFound(found, run, deps)
    if (!instance) await discard(found, snapshot, deps)
    else if (instance.record !== found.record) await save(instance, deps)
    if (instance) instances.push(instance)
  }
  for (const run of runs.values()) {
    const instance = await recoverRun(run, deps)
    await save(instance, deps)
    instances.push(instance)
  }
  return instances
}

/** True if the record on disk is that of the run, and not one of an earlier run. */
function describes({ record }: FoundInstance, run: MarkedRun): boolean {
  return record !== undefined && record !== 'unreadable' && record.nonce === run.record.nonce
}

function recoverFound(
  { record }: FoundInstance,
  run: MarkedRun | undefined,
  deps: RecoveryDependencies,
): ManagedInstance | undefined {
  return record === undefined || record === 'unreadable' ? undefined : recover(record, run, deps)
}

/** Recovers an instance without a record of its own, and creates the files that its supervisor writes to. */
async function recoverRun(run: MarkedRun, deps: RecoveryDependencies): Promise<ManagedInstance> {
  const { files, processes, clock, logger } = deps
  const { record, group, leader } = run
  logger.warn({ server: dottedName(record.ref) }, 'instance recovered from its process: its record was lost or damaged')
  try {
    await files.restore(record.ref, record.nonce, group)
  } catch (error) {
    logger.warn({ err: error, server: dottedName(record.ref) }, 'cannot restore the files of an instance')
  }
  const { ref, nonce } = record
  const options = { runDirectory: files.runDirectory(ref, nonce), mark: nonce, logPath: files.logOf(ref), group }
  const system = { processes, clock, uid: record.uidOfGame }
  const process = leader ? { process: leader } : {}
  return new ManagedInstance(
    { ...record, ...process },
    new GameProcess({ ...options, ...system, ...(leader && { leader }) }),
  )
}

/** Returns undefined if the game was never started and can no longer be started. */
function recover(
  record: InstanceRecord,
  run: MarkedRun | undefined,
  { files, processes, clock }: RecoveryDependencies,
): ManagedInstance | undefined {
  const { ref, nonce, process } = record
  // The command could not be run; the record contains the exit.
  if (nonce === undefined) return new ManagedInstance(record)
  const runDirectory = files.runDirectory(ref, nonce)
  let leader = run?.leader ?? process
  if (!leader) {
    // The host was killed shortly before or after starting the process.
    if (cancelStart(runDirectory) && !run) return undefined
    leader = supervisorOf(readSupervisorPid(runDirectory), nonce)
  }
  const group = leader?.pid ?? run?.group ?? readSupervisorPid(runDirectory)
  // No process id was written, so the supervisor has not started anything.
  if (group === undefined) return undefined
  const game = new GameProcess({
    runDirectory,
    mark: nonce,
    logPath: files.logOf(ref),
    group,
    uid: record.uidOfGame,
    processes,
    clock,
    ...(leader ? { leader } : {}),
  })
  if (!leader || (leader.pid === process?.pid && leader.startedAt === process.startedAt)) {
    return new ManagedInstance(record, game)
  }
  return new ManagedInstance({ ...record, process: leader }, game)
}

/** Returns the supervisor that wrote this process id, unless the id now belongs to an unrelated process. */
function supervisorOf(pid: number | undefined, mark: string): ProcessIdentity | undefined {
  if (pid === undefined) return undefined
  const identity = processIdentity(pid)
  return identity && carriesMark(pid, mark) ? identity : undefined
}

/** The record is written again when it changes, so a full disk does not keep the host from starting. */
async function save(instance: ManagedInstance, { files, logger }: RecoveryDependencies): Promise<void> {
  instance.save(files, logger)
  await instance.saved()
}

async function discard(
  found: FoundInstance,
  snapshot: ProcessSnapshot,
  { files, logger }: RecoveryDependencies,
): Promise<void> {
  const { directory } = found
  const running = found.nonces.flatMap((nonce) => membersOf(snapshot, `${directory}/run-${nonce}`, nonce))
  if (running.length > 0) {
    const pids = running.map(({ pid }) => pid)
    logger.error(
      { directory, pids },
      'instance not managed: its record is unreadable and its processes do not tell what they are; end them and restart',
    )
    return
  }
  if (found.record === 'unreadable') {
    logger.warn({ directory }, 'instance record is unreadable and its game has ended; removing its files')
  } else {
    logger.debug({ directory }, 'removing an instance whose creation or removal was interrupted')
  }
  await files.discard(found)
}

function membersOf(snapshot: ProcessSnapshot, runDirectory: string, mark: string): readonly ProcessIdentity[] {
  const group = readSupervisorPid(runDirectory)
  return group === undefined ? [] : snapshot.membersOf({ mark, group })
}
