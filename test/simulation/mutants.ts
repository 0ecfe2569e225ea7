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
    name: 'an Unhealthy server is handed out',
    kind: 'an unhealthy standing-by server is handed out',
    file: 'src/rules/allocation.ts',
    from: "server.health !== 'Unhealthy' &&",
    to: '',
  },
]
