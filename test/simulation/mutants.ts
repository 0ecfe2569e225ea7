/** Deliberate bugs, each a small change of the sources, to see that the simulation finds them. */
import type { Change } from './bundle.js'

export interface Mutant extends Change {
  readonly name: string
  /** The defect of this field that it stands for. */
  readonly kind: string
}

export const mutants: readonly Mutant[] = [
  {
    name: 'reserve after an await',
    kind: 'two calls get one server',
    file: 'src/engine/allocator.ts',
    from: 'let entry = reserveNow(build, session)',
    to: 'let entry = build.buckets.ready.first; await Promise.resolve(); if (entry) reserve(entry, session)',
  },
  {
    name: 'a second call of a session does not join the first',
    kind: 'two parallel calls with one session get two servers',
    file: 'src/engine/allocator.ts',
    from: 'if (first) return join(first, request, options)',
    to: '',
  },
  {
    name: 'an uncertain server is settled, and another taken all the same',
    kind: 'a retry gets a second server',
    file: 'src/engine/allocator.ts',
    from: 'await settle(held)\n        continue',
    to: 'await settle(held)',
  },
  {
    name: 'surplus counted twice',
    kind: 'all five killed where two should stay',
    file: 'src/rules/scaling.ts',
    from: 'Math.max(0, idle - wanted, -room)',
    to: 'Math.max(0, idle - wanted) + Math.max(0, -room)',
  },
  {
    name: 'a server being handed out counts as idle no more, nor as Active',
    kind: 'more servers than max',
    file: 'src/engine/scaler.ts',
    from: 'active: build.buckets.active.size + build.buckets.reserved.size',
    to: 'active: build.buckets.active.size',
  },
  {
    name: 'a waiting caller is dropped',
    kind: 'callers write their own queue',
    file: 'src/engine/waiting-room.ts',
    from: 'rooms.get(entry.build)?.first?.take(entry)',
    to: '',
  },
  {
    name: 'crashes are not counted',
    kind: 'crash counts are lost',
    file: 'src/engine/steps.ts',
    from: 'crashes: record.crashes + 1',
    to: 'crashes: record.crashes',
  },
  {
    name: 'a crash is counted again after a restart',
    kind: 'crash counts are wrong after a restart',
    file: 'src/engine/steps.ts',
    from: 'if (record.countedCrashes.includes(uid)) return record',
    to: '',
  },
  {
    name: 'silence ends an Active server',
    kind: 'five seconds of silence delete an Active server',
    file: 'src/rules/lifecycle.ts',
    from: "case 'silent':\n      if (!isIdle(server)) return withHealth(server, 'Unhealthy')",
    to: "case 'silent':",
  },
  {
    name: 'an Unhealthy server is handed out',
    kind: 'an unhealthy standing-by server is handed out',
    file: 'src/rules/allocation.ts',
    from: "server.health !== 'Unhealthy' &&",
    to: '',
  },
  {
    name: 'a lost event is not noticed by the list',
    kind: 'stuck for ever in a state',
    file: 'src/engine/watcher.ts',
    from: 'if (!seen.has(key) && entry.observed <= begun && isExpected(entry)) missing(entry)',
    to: '',
  },
  {
    name: 'a list is trusted over what was observed since it began',
    kind: 'a stale view decides',
    file: 'src/engine/watcher.ts',
    from: 'entry.observed <= begun && isExpected(entry)',
    to: 'isExpected(entry)',
  },
  {
    name: 'no pause after a crash',
    kind: '1.27 million creations in 25 hours on a bad template',
    file: 'src/engine/engine.ts',
    from: 'entry.build.backoff = afterFailure(entry.build.backoff, clock.elapsed(), backoffLimits(ctx))',
    to: '',
  },
  {
    name: 'a server that spoke before it was seen running is awaited twice',
    kind: 'silent servers stay',
    file: 'src/engine/heartbeats.ts',
    from: 'if (heard.has(entry) || unheard.has(entry)) return',
    to: '',
  },
  {
    name: 'the record is written after the instance',
    kind: 'instances that nobody knows',
    file: 'src/engine/steps.ts',
    from: '    await save(entry)\n    // It has changed',
    to: "    if (entry.record.state !== 'Pending') await save(entry)\n    // It has changed",
  },
]
