/** Deliberate bugs, each one small change of the sources, to see that the simulation finds them. */
import type { Change } from './bundle.js'

export interface Mutant extends Change {
  readonly name: string
  /** The defect that it stands for: what peers have had, and what this simulation has found in ours. */
  readonly kind: string
  /** Seeds that are tried at most, for a bug that needs much to come together. Default 60. */
  readonly seeds?: number
}

const allocation: readonly Mutant[] = [
  {
    name: 'a server is reserved after an await',
    kind: 'two callers get one server',
    file: 'src/engine/allocation/allocator.ts',
    from: 'let entry = reserveNow(build, session)',
    to: 'let entry = build.buckets.ready.first; await Promise.resolve(); if (entry) reserve(entry, session)',
  },
  {
    name: 'a call does not join the one for the same session',
    kind: 'two parallel calls with one session get two servers',
    file: 'src/engine/allocation/allocator.ts',
    from: 'if (first) return join(first, request, options)',
    to: '',
  },
  {
    name: 'a session is answered before it is durable',
    kind: 'a match is lost with its host',
    file: 'src/engine/allocation/allocator.ts',
    from: 'try {\n          await writer.save(entry)\n          // It ended',
    to: 'writer.save(entry).catch(() => {})\n        if (entry) return allocationOf(entry.record)\n        try {\n          await writer.save(entry)\n          // It ended',
  },
  {
    name: "another host's session is overwritten",
    kind: 'replicas with views of their own collide',
    file: 'src/testing/simulation/store-model.ts',
    from: "if (current.revision !== expected) throw new FleetError('conflict', `${keyOf(record)} has changed`)",
    to: '',
  },
  {
    name: 'a server that ended while it was handed out is handed out',
    kind: 'a Terminating server is handed out',
    seeds: 300,
    file: 'src/engine/allocation/allocator.ts',
    from: 'if (entry.record.session?.id !== session.id) continue',
    to: '',
  },
  {
    name: 'an Unhealthy server is handed out',
    kind: 'an unhealthy standing-by server is handed out',
    file: 'src/rules/planning/allocation.ts',
    from: "server.health !== 'Unhealthy' &&",
    to: '',
  },
  {
    name: 'a waiting caller is not served',
    kind: 'no server ready is final, callers write their own queue',
    file: 'src/engine/allocation/wait-queue.ts',
    from: 'rooms.get(entry.build)?.first?.take(entry)',
    to: '',
  },
  {
    name: 'callers of a deleted build go on waiting',
    kind: 'a waiting caller is forgotten',
    file: 'src/engine/build-operations.ts',
    from: "room.dismiss(new FleetError('not-found', `build",
    to: "void (new FleetError('not-found', `build",
  },
  {
    name: 'an uncertain write is not read back',
    kind: 'a lost reply leaves a session with two servers',
    seeds: 300,
    file: 'src/engine/allocation/allocator.ts',
    from: 'if (held?.uncertain) {',
    to: 'if (held?.uncertain && !held.uncertain) {',
  },
  {
    name: 'an intent takes force with a write that does not hold it',
    kind: 'a game is told of a session that the store does not know',
    seeds: 300,
    file: 'src/engine/persistence/server-writer.ts',
    from: 'if (!session || session !== entry.intent) return',
    to: 'session = entry.intent; if (!session) return',
  },
  {
    name: 'a waiting caller is forgotten when another host leads',
    kind: 'a waiting caller is dropped on restart',
    file: 'src/engine/engine.ts',
    from: 'room.dismiss(error)',
    to: 'void error',
  },
]

const scaling: readonly Mutant[] = [
  {
    name: 'Pending servers do not count against max',
    kind: 'more servers than asked: 510 of 500',
    file: 'src/rules/planning/scaling.ts',
    from: 'const room = input.spec.max - idle - input.active',
    to: 'const room = input.spec.max - idle + input.pending - input.active',
  },
  {
    name: 'a server being handed out counts as idle',
    kind: 'a ready server is killed although it is wanted',
    file: 'src/engine/reconcile/scaler.ts',
    from: 'standingBy: buckets.ready.size + buckets.unready.size + buckets.outdatedReady.size',
    to: 'standingBy: buckets.reserved.size + buckets.ready.size + buckets.unready.size + buckets.outdatedReady.size',
  },
  {
    name: 'a server being handed out does not count as Active',
    kind: 'more servers than max, from a stale view',
    file: 'src/engine/reconcile/scaler.ts',
    from: 'return buckets.active.size + buckets.reserved.size',
    to: 'return buckets.active.size',
  },
  {
    name: 'scaling ends Active servers',
    kind: 'rollouts and scaling that kill matches',
    file: 'src/engine/reconcile/scaler.ts',
    from: "'outdatedReady', 'ready'], destroy.standingBy, reason, message)",
    to: "'active'], destroy.standingBy + destroy.pending, 'Deleted', message)",
  },
  {
    name: 'surplus is counted twice',
    kind: 'standingBy and max drop together: all five killed where two should stay',
    file: 'src/rules/planning/scaling.ts',
    from: 'Math.max(0, idle - wanted - spared, -room)',
    to: 'Math.max(0, idle - wanted - spared) + Math.max(0, -room)',
  },
  {
    name: 'a change of template replaces all at once',
    kind: 'rollouts that kill everything',
    file: 'src/rules/planning/rollout.ts',
    from: 'const replaced = Math.min(old, ',
    to: 'const replaced = Math.max(old, ',
  },
  {
    name: 'a change of template goes on though nothing gets ready',
    kind: 'a bad template consumes the old servers',
    file: 'src/rules/planning/rollout.ts',
    from: 'rolloutBatch(wanted) - onTheWay - missing))',
    to: 'rolloutBatch(wanted) - missing))',
  },
  {
    name: 'a template that has crashed is trusted at once',
    kind: 'a bad template consumes the old servers, one match or one good machine at a time',
    file: 'src/engine/reconcile/scaler.ts',
    from: 'if (crashedTemplate !== templateHash) return',
    to: 'if (templateHash) return',
    seeds: 300,
  },
  {
    name: 'whoever has waited in vain is forgotten',
    kind: 'the server that is being started for him is ended before he is back',
    file: 'src/engine/engine.ts',
    from: 'room.waiting(build) + expected.count(build)',
    to: 'room.waiting(build)',
  },
  {
    name: 'no pause after a crash',
    kind: '1.27 million creations in 25 hours on a bad template',
    file: 'src/engine/change-handlers.ts',
    from: 'entry.build.backoff = afterFailure(entry.build.backoff, clock.elapsed(), backoffLimits(ctx))',
    to: '',
  },
  {
    name: 'an Unhealthy build gets new servers',
    kind: 'a broken build is started for ever',
    file: 'src/engine/reconcile/scaler.ts',
    from: "&& buildHealth(build.record) === 'Healthy'",
    to: '',
  },
]

const life: readonly Mutant[] = [
  {
    name: 'silence ends an Active server',
    kind: 'five seconds of silence delete an Active server',
    file: 'src/rules/lifecycle/lifecycle.ts',
    from: "case 'silent':\n      if (!isIdle(server)) return withHealth(server, 'Unhealthy')",
    to: "case 'silent':",
  },
  {
    name: 'a host that was suspended forgives nobody',
    kind: 'servers are ended for what the host slept through',
    file: 'src/engine/instances/ticker.ts',
    from: 'parts.timeouts.restartTimers()',
    to: '',
  },
  {
    name: 'an instance that is gone is ignored',
    kind: 'servers of a dead node stay for ever',
    file: 'src/rules/lifecycle/lifecycle.ts',
    from: "case 'gone':\n      return ended(",
    to: "case 'gone':\n      if (server) return server\n      return ended(",
  },
  {
    name: 'a crash is not counted',
    kind: 'crash counts are lost',
    file: 'src/engine/reconcile/server-actions.ts',
    from: 'crashes: record.crashes + 1',
    to: 'crashes: record.crashes',
  },
  {
    name: 'a crash is counted while its server is removed',
    kind: 'crash counts are lost on restart',
    file: 'src/engine/reconcile/server-actions.ts',
    from: '    await countCrash(entry)\n',
    to: '    countCrash(entry).catch(() => {})\n',
  },
  {
    name: 'what the list no longer has is not noticed',
    kind: 'stuck in a state for ever',
    file: 'src/engine/instances/instance-watcher.ts',
    from: 'if (found) observe(found)\n    else missing(entry)',
    to: 'if (found) observe(found)',
  },
  {
    name: 'a crash is counted again after a restart',
    kind: 'crash counts are wrong after a restart',
    file: 'src/engine/reconcile/server-actions.ts',
    from: 'countedCrashes: [...withoutRemoved(entry.build, record.countedCrashes), uid],',
    to: 'countedCrashes: record.countedCrashes,',
  },
]

const records: readonly Mutant[] = [
  {
    name: 'an instance is started before its record is written',
    kind: 'instances that nobody knows',
    file: 'src/engine/persistence/server-writer.ts',
    from: 'return entry.record === entry.stored && entry.intent === undefined',
    to: "return entry.record.state === 'Pending' || (entry.record === entry.stored && entry.intent === undefined)",
  },
  {
    name: 'a server is ended before its end is on record',
    kind: 'deletion without precondition: a host that dies in between takes it for a crash',
    file: 'src/engine/reconcile/server-actions.ts',
    from: '&& !isSaved(entry)) return 0',
    to: '&& !entry) return 0',
  },
  {
    name: 'a game is told to end before that is on record',
    kind: 'a host that dies in between hands out a server that is leaving',
    file: 'src/engine/instances/heartbeats.ts',
    from: "state === 'Terminating' && isEndCertain(entry)",
    to: "state === 'Terminating' && (entry || isEndCertain(entry))",
  },
  {
    name: 'an edit past the fleet is not seen',
    kind: 'a stale view is kept for ever',
    file: 'src/engine/persistence/store-resync.ts',
    from: 'if (known.revision !== found.revision) await look(known)',
    to: '',
  },
  {
    name: 'a port is not given again once the range is through',
    kind: 'ports leak',
    seeds: 300,
    file: 'src/rules/model/ports.ts',
    from: 'for (let i = 0; i < size; i++)',
    to: 'for (let i = 0; i < size - start; i++)',
  },
  {
    name: 'only the number of players is compared',
    kind: 'a swap of players with the same count is not seen',
    file: 'src/engine/instances/heartbeats.ts',
    from: 'if (a[i] !== b[i]) return false',
    to: 'if (a[i] === undefined) return false',
  },
  {
    name: 'an engine that is over goes on',
    kind: 'a host that leads no more acts',
    file: 'src/engine/persistence/leadership-guard.ts',
    from: 'closedWith ??= error',
    to: 'void error',
  },
  {
    name: 'an instance is not removed',
    kind: 'leaked processes and ports',
    seeds: 300,
    file: 'src/engine/reconcile/server-actions.ts',
    from: 'if (entry.createRequested) {',
    to: 'if (entry.createRequested && !entry.createRequested) {',
  },
  {
    name: 'a Pending server of before is forgotten',
    kind: 'a create that a dead host began is lost',
    file: 'src/engine/persistence/loader.ts',
    from: 'inOrder.forEach(loadServer)',
    to: "inOrder.filter(({ record }) => record.state !== 'Pending').forEach(loadServer)",
  },
  {
    name: 'a build that was deleted past the fleet goes on',
    kind: 'a stale view is kept for ever',
    seeds: 300,
    file: 'src/engine/persistence/store-resync.ts',
    from: 'if (!there.has(key) && isIn(build, namespace)) await look(build)',
    to: 'void there',
  },
]

const watching: readonly Mutant[] = [
  {
    name: 'a notice of the store is dropped',
    kind: 'what people edit is acted on by chance',
    file: 'src/engine/persistence/store-resync.ts',
    from: 'changed: (found) => own(buildChanged(found)),',
    to: 'changed: () => {},',
  },
  {
    name: 'a stale notice overwrites a newer record',
    kind: 'a late event undoes what came after it',
    file: 'src/engine/persistence/store-resync.ts',
    from: 'if (known.revision !== found.revision) await look(known)\n    }',
    to: 'inventory.replaceBuild(known, found.record, found.revision)\n      ctx.enqueue(known)\n    }',
  },
  {
    name: 'a server whose record was deleted by hand goes on',
    kind: 'a process that nobody knows holds its port',
    file: 'src/engine/persistence/store-resync.ts',
    from: 'gone: (ref) => own(serverGone(ref)),',
    to: 'gone: () => {},',
  },
  {
    name: 'what is wrong with a spec is told of Healthy builds only',
    kind: 'an edit is not acted on, and nobody is told why',
    seeds: 300,
    file: 'src/engine/reconcile/scaler.ts',
    from: 'const breaksRule = parts.breaksRule(build)',
    to: "const breaksRule = buildHealth(build.record) === 'Healthy' && parts.breaksRule(build)",
  },
  {
    name: 'who waits for a buildID that an edit took away goes on waiting',
    kind: 'a waiting caller is forgotten',
    seeds: 300,
    file: 'src/engine/build-operations.ts',
    from: "room.dismiss(new FleetError('not-found', message), build)",
    to: 'void message',
  },
]

export const mutants: readonly Mutant[] = [...allocation, ...scaling, ...life, ...records, ...watching]
