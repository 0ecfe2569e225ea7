/** Planted bugs: each is one small change to the sources, which the simulation has to detect. */
import type { Change } from './bundle.js'

export interface PlantedBug extends Change {
  readonly name: string
  /** The kind of defect, as seen in similar projects or found by this simulation. */
  readonly standsFor: string
  /** Maximum number of seeds to try in a search. Set for bugs that are rarely triggered. Default 60. */
  readonly seeds?: number
  /** Whether the store has the journal of the Kubernetes store. */
  readonly journal?: boolean
}

const allocation: readonly PlantedBug[] = [
  {
    name: 'a server is reserved only after an await',
    standsFor: 'two callers get the same server',
    file: 'src/engine/allocation/allocator.ts',
    from: 'let place = this.#takeReady(build, call, options, canWait)',
    to: 'const first = build?.buckets.ready.first; await Promise.resolve(); let place = first && (call.place = this.#places.take(first, call, undefined))',
  },
  {
    name: 'a second call for a session does not join the first',
    standsFor: 'two parallel calls for one session get two servers',
    file: 'src/engine/allocation/allocator.ts',
    from: 'if (first) return this.#join(first, request, options)',
    to: '',
  },
  {
    name: 'an allocation is answered before its session is stored',
    standsFor: 'a match is lost when its host crashes',
    file: 'src/engine/allocation/allocator.ts',
    from: 'try {\n          await writer.save(entry)\n          // The server ended',
    to: 'writer.save(entry).catch(() => {})\n        if (entry) return allocationOf(entry, session.id)\n        try {\n          await writer.save(entry)\n          // The server ended',
  },
  {
    name: 'a caller with confirm does not wait for the game',
    standsFor: 'players arrive before the session',
    file: 'src/engine/allocation/confirmations.ts',
    from: 'if (entry && isConfirmed(entry, sessionID)) return',
    to: 'if (entry) return',
  },
  {
    name: 'any heartbeat confirms a session',
    standsFor: 'an answer that the game has not received counts as received',
    file: 'src/engine/instances/heartbeats.ts',
    from: "if (heartbeat.state === 'Active' && isCurrent && !heartbeat.several)\n",
    to: 'if (true)\n',
  },
  {
    name: 'any report of the end of a session ends the present one',
    standsFor: 'a repeated report that a match is over ends the next match',
    file: 'src/rules/lifecycle/server-sessions.ts',
    from: 'return number >= session.number && sessionKey',
    to: 'return number > 0 || sessionKey',
  },
  {
    name: 'the end of a session counts before it is stored',
    standsFor: 'after a host crash, a session has two servers',
    seeds: 300,
    file: 'src/engine/instances/heartbeats.ts',
    from: 'this.#sessions.ended(entry, [heartbeat.endedSession])',
    to: "inventory.update(entry, transition(entry.record, { type: 'sessionsEnded', ended: [heartbeat.endedSession] }, 0))",
  },
  {
    name: 'the end of a session is reported only once',
    standsFor: 'a lost report leaves a server in use for ever',
    file: 'test/simulation/models/game-model.ts',
    from: '...(this.deps.rooms?.report ?? (this.#ended && { endedSession: this.#ended })),',
    to: '...this.deps.rooms?.report,',
  },
  {
    name: 'the end of a session is reported once its record is deleted',
    standsFor: 'a matchmaker never hears that a match is over, because its host ended in between',
    file: 'src/engine/reconcile/server-termination.ts',
    from: `this.#deps.events.serverGone(entry)
    // Needed even if the record was already deleted, because an earlier write may have taken effect late.
    if (entry.revision !== undefined) await this.#deleteRecord(entry)`,
    to: 'if (entry.revision !== undefined) await this.#deleteRecord(entry); this.#deps.events.serverGone(entry)',
  },
  {
    name: 'a host does not know which ends of sessions it has reported',
    standsFor: 'a matchmaker counts the result of a match twice',
    file: 'src/engine/ended-sessions.ts',
    from: 'if (this.#ended.get(key)?.event.sessionUid === sessionUid) return',
    to: '',
  },
  {
    name: 'a server whose game does not confirm in time is terminated',
    standsFor: 'a session that must be retried has lost its server',
    file: 'src/engine/allocation/confirmations.ts',
    from: 'const cancel = clock.after(waitMs, () => waiter.reject(notConfirmedError(entry, sessionID, waitMs)))',
    to: `const cancel = clock.after(waitMs, () => {
        waiter.reject(notConfirmedError(entry, sessionID, waitMs))
        const ending = { reason: 'Deleted', message: 'not confirmed', crash: false, at: clock.now() }
        clock.after(1, () => inventory.update(entry, { ...entry.record, state: 'Terminating', ending }))
      })`,
  },
  {
    name: 'a host that stops does not dismiss callers that wait for a confirmation',
    standsFor: 'a waiting caller gets no answer after a failover',
    seeds: 300,
    file: 'src/engine/engine.ts',
    from: 'confirmations.rejectAll(error)',
    to: '',
  },
  {
    name: 'the store accepts a write with an old revision',
    standsFor: 'replicas with stale views overwrite each other',
    file: 'test/simulation/models/store-model.ts',
    from: "if (current.revision !== expected) throw new FleetError('conflict', `${keyOf(record)} has changed`)",
    to: '',
  },
  {
    name: 'a server that terminates during its allocation is still allocated',
    standsFor: 'a Terminating server is allocated',
    seeds: 300,
    file: 'src/engine/allocation/allocator.ts',
    from: "if (place.state !== 'durable') continue",
    to: '',
  },
  {
    name: 'an Unhealthy server is allocated',
    standsFor: 'a caller gets a server that cannot run a match',
    file: 'src/rules/planning/server-choice.ts',
    from: "server.health !== 'Unhealthy' &&",
    to: '',
  },
  {
    name: 'a server that becomes ready is not given to a waiting caller',
    standsFor: 'callers have to poll for a free server',
    file: 'src/engine/change-handlers.ts',
    from: 'this.#deps.waitQueue.serve(entry)',
    to: 'void entry',
  },
  {
    name: 'an unheard server is allocated before one that was heard',
    standsFor: 'after a restart of the host, a match starts minutes late because its game pauses',
    seeds: 300,
    file: 'src/rules/planning/server-choice.ts',
    from: 'const heard = ready.first ?? outdatedReady.first',
    to: 'const heard = unheard.first ?? ready.first ?? outdatedReady.first',
  },
  {
    name: 'an exit before the agent could be reached counts as a crash',
    standsFor: 'a restart of the host makes builds Unhealthy whose games exit without an agent',
    seeds: 300,
    file: 'src/engine/instances/instance-observer.ts',
    from: '...(entry.agentWasAway && { agentWasAway: true as const }),',
    to: '',
  },
  {
    name: 'no exit before the first heartbeat counts as a crash',
    standsFor: 'a build whose games crash at their start is restarted without a pause, for ever',
    seeds: 300,
    file: 'src/engine/reconcile/server-start.ts',
    from: 'entry.agentWasAway = false',
    to: 'entry.agentWasAway = true',
  },
  {
    name: 'a server that is heard again is not given to a waiting caller',
    standsFor: 'after a restart of the host, callers wait although every server sends heartbeats',
    file: 'src/engine/instances/heartbeats.ts',
    from: 'if (isNewlyHeard) this.#ctx.inventory.heardChanged(entry)',
    to: '',
  },
  {
    name: 'a call whose wait ends is refused although an unheard server is standing by',
    standsFor: 'players are turned away while a server is free',
    seeds: 300,
    file: 'src/engine/allocation/wait-queue.ts',
    from: 'if (entry) return waiter.resolve(entry)',
    to: '',
  },
  {
    name: 'deleting a build does not dismiss its waiting callers',
    standsFor: 'a waiting caller gets no answer',
    file: 'src/engine/builds/build-operations.ts',
    from: 'this.#deps.waitQueue.rejectAll(error, build)',
    to: 'void error',
  },
  {
    name: 'a write with an unknown outcome is not read back',
    standsFor: 'a lost reply leaves a session with two servers',
    seeds: 300,
    file: 'src/engine/allocation/allocator.ts',
    from: "if (removal || (place && place.state !== 'held')) return true",
    to: 'if (removal) return true',
  },
  {
    name: 'an allocation is confirmed by a write that does not contain it',
    standsFor: 'a game starts a session that is not in the store',
    seeds: 300,
    file: 'src/engine/persistence/server-writer.ts',
    from: 'this.#accept(entry, base, written, carried, ends)',
    to: "this.#accept(entry, base, written, carried, ends); for (const place of entry.places) place.state = 'durable'",
  },
  {
    name: 'losing leadership does not dismiss waiting callers',
    standsFor: 'a waiting caller gets no answer after a failover',
    file: 'src/engine/engine.ts',
    from: 'waitQueue.rejectAll(error)',
    to: 'void error',
  },
]

/** How far clocks of the time zone are ahead of UTC at present. */
const presentOffset = `const shown = Date.parse(new Date(now).toLocaleString('sv-SE', { timeZone: timezone }).replace(' ', 'T') + 'Z')
      const offset = Math.round((shown - now) / 60_000) * 60_000`

const scaling: readonly PlantedBug[] = [
  {
    name: 'scaling policies have no patience',
    standsFor: 'an autoscaler flaps: servers are terminated in one lull and started again after it',
    seeds: 300,
    file: 'src/rules/scaling/patience.ts',
    from: 'ask.until + delayMs > now && ask.level > level',
    to: 'ask.until > now && ask.level > level',
  },
  {
    name: 'a number set by hand holds for good',
    standsFor: 'one kubectl scale turns the autoscaler off',
    seeds: 600,
    file: 'src/engine/reconcile/scaling-override.ts',
    from: 'if (number === spec.standingBy) return holds ? known : undefined',
    to: 'if (number === spec.standingBy) return known && { ...known, until: now.wall + 60_000 }',
  },
  {
    name: 'a session does not count as use of a build',
    standsFor: 'scaling to zero in the middle of an evening',
    seeds: 300,
    file: 'src/engine/reconcile/scaling-policies.ts',
    from: 'const isUsed = inUse(build) > 0 || this.#deps.callers(build) > 0',
    to: 'const isUsed = this.#deps.callers(build) > 0',
  },
  {
    name: 'windows are read in UTC',
    standsFor: 'at eight in the evening, the servers for the evening come at nine',
    seeds: 300,
    file: 'src/rules/scaling/windows.ts',
    from: "{ mode: '5-part', paused: true, timezone }",
    to: "{ mode: '5-part', paused: true, timezone: 'UTC' }",
  },
  {
    name: 'the next edge of a window is computed with the present offset of its time zone',
    standsFor: 'on the night of a clock change, the servers for the morning come an hour late',
    seeds: 300,
    file: 'src/rules/scaling/windows.ts',
    from: 'const next = cron.nextRun(new Date(now))',
    to: `${presentOffset}
      const found = new Cron(expression, { mode: '5-part', paused: true, timezone: 'UTC' }).nextRun(new Date(now + offset))
      const next = found && new Date(found.getTime() - offset)`,
  },
  {
    name: 'a window that ends in the hour that is repeated ends twice',
    standsFor: 'on the night of a clock change, a window that has just begun is closed again',
    seeds: 300,
    file: 'src/rules/scaling/windows.ts',
    from: 'const last = cron.previousRuns(2, new Date(now + 1_000)).find((time) => time.getTime() <= now)',
    to: `${presentOffset}
      const last = new Cron(expression, { mode: '5-part', paused: true, timezone: 'UTC' })
        .previousRuns(2, new Date(now + offset + 1_000))
        .map((time) => new Date(time.getTime() - offset))
        .find((time) => time.getTime() <= now)`,
  },
  {
    name: 'the delay of scaling down counts from the beginning of a peak',
    standsFor: 'a fleet shrinks in the middle of a burst of callers',
    seeds: 300,
    file: 'src/rules/scaling/patience.ts',
    from: '? { ...ask, until: now } : ask',
    to: '? ask : ask',
  },
  {
    name: 'the buffer is sized every ten seconds',
    standsFor: 'a burst of callers finds an autoscaler that polls',
    seeds: 300,
    file: 'src/engine/reconcile/scaling-policies.ts',
    from: '{ inUse: inUse(build), idleSince,',
    to: `{
        inUse: (Object.assign(build, {
          polled: (build as any).polled?.at > now.elapsed - 10_000 ? (build as any).polled : { at: now.elapsed, used: inUse(build) },
        }) as any).polled.used, idleSince,`,
  },
  {
    name: 'scaling down makes one step',
    standsFor: 'after a peak, half of the servers are terminated at once',
    seeds: 300,
    file: 'src/rules/scaling/patience.ts',
    from: 'Math.max(floor, before.level - size)',
    to: 'Math.max(floor, 0 * size)',
  },
  {
    name: 'the last answer of a webhook holds for good',
    standsFor: 'after the end of an event, a service that is away keeps its servers running',
    seeds: 300,
    file: 'src/rules/scaling/webhook-vote.ts',
    from: 'answer.at.elapsed + holdSeconds * 1_000',
    to: 'answer.at.elapsed + holdSeconds * 1_000_000',
  },
  {
    name: 'a webhook that is away asks for nothing',
    standsFor: 'one failed request scales a fleet down',
    seeds: 300,
    file: 'src/engine/reconcile/webhook-policies.ts',
    from: 'webhook.answers = { ...webhook.answers, failure }',
    to: 'webhook.answers = { ...webhook.answers, answer: undefined, failure }',
  },
  {
    name: 'servers in use do not count to the budget',
    standsFor: 'a budget of 100 servers, and 180 in the evening',
    seeds: 300,
    file: 'src/engine/reconcile/budget-shares.ts',
    from: 'serverCount(build) - build.buckets.terminating.size + unsavedTerminations(build)',
    to: 'serverCount(build) - build.buckets.terminating.size + unsavedTerminations(build) - inUse(build)',
  },
  {
    name: 'Pending servers do not count against max',
    standsFor: 'more servers than max: 510 of 500',
    file: 'src/rules/planning/scaling.ts',
    from: 'const room = input.spec.max - idle - late - input.active',
    to: 'const room = input.spec.max - idle + input.pending - late - input.active',
  },
  {
    name: 'late servers count as idle',
    standsFor: 'a start that hangs holds its place, and callers time out',
    seeds: 300,
    file: 'src/rules/planning/scaling.ts',
    from: 'const idle = input.pending + input.initializing + standingBy',
    to: 'const idle = input.pending + input.initializing + standingBy + late',
  },
  {
    name: 'late servers are never terminated',
    standsFor: 'servers whose starts hang fill a build up to max',
    file: 'src/rules/planning/scaling.ts',
    from: 'Math.max(0, late - useful, missing - room, input.withoutPort)',
    to: 'Math.max(0, 0 * useful, 0 * missing)',
  },
  {
    name: 'one build may hold every slot for starts',
    standsFor: 'a build whose creates hang keeps the others from starting',
    file: 'src/util/limiter.ts',
    from: 'if (group.running === 0 || running < maxConcurrent) {',
    to: 'if (running < maxConcurrent) {',
  },
  {
    name: 'a reserved server counts as idle',
    standsFor: 'a ready server is terminated although it is needed',
    file: 'src/engine/reconcile/scaler.ts',
    from: 'standingBy: standingByIn(build),',
    to: 'standingBy: standingByIn(build) + buckets.reserved.size,',
  },
  {
    name: 'a reserved server does not count as Active',
    standsFor: 'a stale view leads to more servers than max',
    file: 'src/engine/state/queries.ts',
    from: 'return buckets.active.size + buckets.reserved.size + buckets.setAside.size',
    to: 'return buckets.active.size + buckets.setAside.size',
  },
  {
    name: 'scaling down terminates Active servers',
    standsFor: 'scaling and rolling updates kill matches',
    file: 'src/engine/reconcile/scaler.ts',
    from: "'outdatedReady', 'ready'],\n      destroy.standingBy,\n      reason,",
    to: "'active'],\n      destroy.standingBy + destroy.pending,\n      'Deleted',",
  },
  {
    name: 'the surplus is counted twice',
    standsFor: 'standingBy and max drop together: all five servers are terminated where two should stay',
    file: 'src/rules/planning/scaling.ts',
    from: 'Math.max(0, idle - wanted - protectedSurplus, -room - overdue)',
    to: 'Math.max(0, idle - wanted - protectedSurplus) + Math.max(0, -room)',
  },
  {
    name: 'a rolling update replaces all servers at once',
    standsFor: 'a rolling update leaves no server standing by',
    file: 'src/rules/planning/rollout.ts',
    from: 'const replaced = Math.min(old, ',
    to: 'const replaced = Math.max(old, ',
  },
  {
    name: 'a rolling update continues although no new server gets ready',
    standsFor: 'a bad template replaces the working servers',
    file: 'src/rules/planning/rollout.ts',
    from: 'batch - starting - missing))',
    to: 'batch - missing))',
  },
  {
    name: 'a template that crashed is trusted again at once',
    standsFor: 'a bad template replaces the working servers, one at a time',
    file: 'src/engine/reconcile/scaler.ts',
    from: 'if (crashedTemplate !== templateHash) return',
    to: 'if (templateHash) return',
    seeds: 300,
  },
  {
    name: 'a caller whose wait timed out stops counting as demand',
    standsFor: 'a server is terminated before the caller it was started for retries',
    file: 'src/engine/wiring.ts',
    from: 'waitQueue.demand(build) + retryGrace.count(build)',
    to: 'waitQueue.demand(build)',
  },
  {
    name: 'a crash causes no back-off',
    standsFor: '1.27 million creates in 25 hours with a bad template',
    file: 'src/engine/change-handlers.ts',
    from: 'build.backoff = afterFailure(build.backoff, clock.elapsed(), backoffLimits(this.#ctx))',
    to: '',
  },
  {
    name: 'an Unhealthy build gets new servers',
    standsFor: 'servers of a broken build are created forever',
    file: 'src/engine/reconcile/scaler.ts',
    from: '&& isHealthy(build)',
    to: '',
  },
]

const life: readonly PlantedBug[] = [
  {
    name: 'an exit with code 0 before readiness is no crash',
    standsFor: 'a game that cannot start is started again for ever, and the build is Healthy',
    file: 'src/rules/lifecycle/termination.ts',
    from: 'if (event.exitCode === 0 && !isBeforeReady(server)) {',
    to: 'if (event.exitCode === 0) {',
  },
  {
    name: 'a crash sets no condition',
    standsFor: 'a build lacks servers for good, and nothing says why',
    file: 'src/engine/reconcile/server-termination.ts',
    from: 'return withCrashing(counted, crash, this.#ctx.clock.now())',
    to: 'return counted',
  },
  {
    name: 'missing heartbeats terminate an Active server',
    standsFor: 'five seconds without a heartbeat end a match',
    file: 'src/rules/lifecycle/lifecycle.ts',
    from: "case 'silent':\n      if (!isIdle(server)) return withHealth(server, 'Unhealthy')",
    to: "case 'silent':",
  },
  {
    name: 'a host does not restart heartbeat timeouts after a suspension',
    standsFor: 'servers are terminated for heartbeats that a suspended host missed',
    seeds: 600,
    file: 'src/engine/instances/ticker.ts',
    from: 'timeouts.restartTimers()',
    to: '',
  },
  {
    name: 'a deleted instance is ignored',
    standsFor: 'servers of a dead node stay forever',
    file: 'src/rules/lifecycle/lifecycle.ts',
    from: "case 'gone':\n      return ended(",
    to: "case 'gone':\n      if (server) return server\n      return ended(",
  },
  {
    name: 'a crash is not counted',
    standsFor: 'crash counts are too low',
    file: 'src/engine/reconcile/server-termination.ts',
    from: 'crashes: record.crashes + 1',
    to: 'crashes: record.crashes',
  },
  {
    name: 'a server is deleted before its crash is counted',
    standsFor: 'a crash count is lost when the host restarts',
    file: 'src/engine/reconcile/server-termination.ts',
    from: '    await this.#countCrash(entry)\n',
    to: '    this.#countCrash(entry).catch(() => {})\n',
  },
  {
    name: 'an instance that is missing from the list is not noticed',
    standsFor: 'a server stays in one state forever',
    file: 'src/engine/instances/instance-watcher.ts',
    from: 'if (found) this.#observer.observe(found)\n    else this.#observer.observeMissing(entry)',
    to: 'if (found) this.#observer.observe(found)',
  },
  {
    name: 'a crash is counted again after a restart',
    standsFor: 'crash counts are too high after a restart',
    file: 'src/engine/reconcile/server-termination.ts',
    from: 'countedCrashes: [...withoutRemoved(entry.build, record.countedCrashes), uid],',
    to: 'countedCrashes: record.countedCrashes,',
  },
]

const records: readonly PlantedBug[] = [
  {
    name: 'an instance is created before its record is written',
    standsFor: 'orphaned instances',
    file: 'src/engine/state/queries.ts',
    from: 'return entry.ends === undefined && entry.record',
    to: "return entry.record.state === 'Pending' || entry.ends === undefined && entry.record",
  },
  {
    name: 'an instance is deleted before Terminating is stored',
    standsFor: 'after a host crash, an intended deletion counts as a crash',
    file: 'src/engine/reconcile/server-actions.ts',
    from: 'if (!entry.recordDeleted && isUnsaved(entry)) return 0',
    to: '',
  },
  {
    name: 'a game is told to terminate before Terminating is stored',
    standsFor: 'after a host crash, a terminating server is allocated',
    file: 'src/engine/instances/heartbeats.ts',
    from: "state === 'Terminating' && isTerminationCertain(entry)",
    to: "state === 'Terminating' && (entry || isTerminationCertain(entry))",
  },
  {
    name: 'a game that sends heartbeats is signalled at once',
    standsFor: 'the shutdown callback of a game without a signal handler never runs',
    file: 'src/engine/reconcile/server-termination.ts',
    from: 'sinceHeartbeatMs: isExpected ?',
    to: 'sinceHeartbeatMs: isExpected && !isExpected ?',
  },
  {
    name: 'a game is killed after half its grace period',
    standsFor: 'a shutdown that saves a match is cut short',
    file: 'src/rules/lifecycle/termination.ts',
    from: 'Math.max(0, graceMs - sinceTerminateMs)',
    to: 'Math.max(0, graceMs / 2 - sinceTerminateMs)',
  },
  {
    name: 'a resync ignores changed builds',
    standsFor: 'the fleet keeps a stale view forever',
    file: 'src/engine/persistence/store-resync.ts',
    from: 'if (build.revision !== found.revision) await this.#refreshBuild(build)',
    to: '',
  },
  {
    name: 'the search for a free port does not wrap around',
    standsFor: 'ports leak',
    seeds: 300,
    file: 'src/rules/model/ports.ts',
    from: 'for (let i = 0; i < size; i++)',
    to: 'for (let i = 0; i < size - start; i++)',
  },
  {
    name: 'only the number of players is compared',
    standsFor: 'a change of players that keeps their number is not noticed',
    file: 'src/engine/instances/heartbeats.ts',
    from: 'if (a[i] !== b[i]) return false',
    to: 'if (a[i] === undefined) return false',
  },
  {
    name: 'a stopped engine keeps acting',
    standsFor: 'a deposed host still acts',
    file: 'src/engine/persistence/leadership-guard.ts',
    from: 'this.#closedWith ??= error',
    to: 'void error',
  },
  {
    name: 'an instance is not deleted',
    standsFor: 'processes and ports leak',
    seeds: 300,
    file: 'src/engine/reconcile/server-termination.ts',
    from: 'if (entry.createRequested) await',
    to: 'if (entry.createRequested && !entry.createRequested) await',
  },
  {
    name: 'a new leader does not load Pending servers',
    standsFor: 'a create that a crashed host started is lost',
    file: 'src/engine/persistence/loader.ts',
    from: 'of inOrder) this.loadServer(server)',
    to: "of inOrder) if (server.record.state !== 'Pending') this.loadServer(server)",
  },
  {
    name: 'a resync ignores deleted builds',
    standsFor: 'the fleet keeps a stale view forever',
    seeds: 300,
    file: 'src/engine/persistence/store-resync.ts',
    from: 'if (!present.has(key) && isIn(build, namespace)) await this.#refreshBuild(build)',
    to: 'void present',
  },
]

const watching: readonly PlantedBug[] = [
  {
    name: 'watch events of builds are dropped',
    standsFor: 'edits take effect only by chance',
    file: 'src/engine/persistence/store-resync.ts',
    from: 'changed: (found) => this.#run(this.#buildReported(found)),',
    to: 'changed: () => {},',
  },
  {
    name: 'a stale watch event overwrites a newer record',
    standsFor: 'a late event reverts a newer change',
    file: 'test/simulation/models/store-watches.ts',
    from: 'if (Number(revision) < (latest.get(key) ?? 0)) return false',
    to: '',
  },
  {
    name: 'deletion events of server records are dropped',
    standsFor: 'an orphaned process keeps its port',
    seeds: 300,
    file: 'src/engine/persistence/store-resync.ts',
    from: 'gone: (ref) => this.#run(this.#serverGone(ref)),',
    to: 'gone: () => {},',
  },
  {
    name: 'an invalid spec is reported for builds without crashes only',
    standsFor: 'an edit is ignored without an explanation',
    seeds: 300,
    file: 'src/engine/wiring.ts',
    from: '=> specs.validate(build)',
    to: '=> build.record.crashes > 0 || specs.validate(build)',
  },
  {
    name: 'changing a buildID does not dismiss its waiting callers',
    standsFor: 'a waiting caller gets no answer',
    seeds: 300,
    file: 'src/engine/builds/build-operations.ts',
    from: "this.#deps.waitQueue.rejectAll(new FleetError('not-found', message), build)",
    to: 'void message',
  },
]

const maintenance: readonly PlantedBug[] = [
  {
    name: 'a copy of a record lacks its announced maintenance',
    standsFor: 'a later change erases an announcement',
    file: 'src/rules/model/resources.ts',
    from: 'maintenance: server.maintenance,',
    to: '',
  },
  {
    name: 'a cached answer survives an announcement',
    standsFor: 'a game in a match never learns of maintenance',
    file: 'src/engine/instances/heartbeats.ts',
    from: ' || answers?.maintenance !== maintenance',
    to: '',
  },
  {
    name: 'an announcement is acknowledged before it is stored',
    standsFor: 'an announcement is lost when its host crashes',
    file: 'src/engine/instances/maintenance-announcements.ts',
    from: 'await Promise.all(entries.map((entry) => this.#save(entry)))',
    to: 'void Promise.all(entries.map((entry) => this.#save(entry))).catch(() => {})',
  },
]

const serverData: readonly PlantedBug[] = [
  {
    name: 'a copy of a record lacks its data',
    standsFor: 'a later change erases labels and counters',
    file: 'src/rules/model/resources.ts',
    from: 'data: server.data,',
    to: '',
  },
  {
    name: "a change of a server's data is acknowledged before it is stored",
    standsFor: 'a change is lost when its host crashes',
    file: 'src/engine/instances/server-data.ts',
    from: "transition(entry.record, { type: 'data', data: updated.data }, clock.now()))\n    await this.#save(entry)",
    to: "transition(entry.record, { type: 'data', data: updated.data }, clock.now()))\n    void this.#save(entry).catch(() => {})",
  },
  {
    name: 'the capacity of a list is not checked',
    standsFor: 'concurrent callers overfill a server',
    file: 'src/rules/lifecycle/server-data.ts',
    from: 'if (next.size <= capacity) return',
    to: 'if (next.size <= capacity || capacity > 0) return',
  },
  {
    name: 'a counter is incremented although the list beside it is full',
    standsFor: 'half of a refused change is made',
    file: 'src/rules/lifecycle/server-data.ts',
    from: 'if (!lists.ok) return lists',
    to: 'if (!lists.ok) return { ok: true, data: { ...data, counters: counters.entries } }',
  },
]

const claims: readonly PlantedBug[] = [
  {
    name: 'a new leader does not know which sessions had players',
    standsFor: 'a match that waits for its players to reconnect ends after a restart of the host',
    seeds: 300,
    file: 'src/engine/persistence/loader.ts',
    from: "entry.hadPlayers = entry.record.state === 'Active'",
    to: '',
  },
  {
    name: 'a session lapses again once its players have left',
    standsFor: 'a match ends while its players reconnect',
    file: 'src/engine/instances/heartbeats.ts',
    from: 'if (hasPlayers) entry.hadPlayers = true',
    to: 'entry.hadPlayers = hasPlayers',
  },
  {
    name: 'the time to claim a session begins anew with each heartbeat',
    standsFor: 'a caller who does not come keeps a server for ever',
    file: 'src/rules/lifecycle/server-sessions.ts',
    from: 'if (!isOver) return claim',
    to: 'if (!isOver) return { since: now, isDue: false }',
  },
]

const seats: readonly PlantedBug[] = [
  {
    name: 'free seats are counted before an await and taken after it',
    standsFor: 'two callers get the same seat',
    file: 'src/engine/seats/seats.ts',
    from: 'await this.#change(entry, sessionID, outcome.holds)',
    to: 'await Promise.resolve(); await this.#change(entry, sessionID, outcome.holds)',
  },
  {
    name: 'a seat is promised before its hold is stored',
    standsFor: 'a seat is given again after a failover',
    file: 'src/engine/seats/seats.ts',
    from: 'await this.#deps.writer.save(entry)',
    to: 'this.#deps.writer.save(entry).catch(() => {})',
  },
  {
    name: 'holds are not dropped at their time',
    standsFor: 'records keep what is over',
    file: 'src/engine/seats/hold-timers.ts',
    from: 'cancel: clock.after(ms, () => this.#due(entry))',
    to: 'cancel: () => void ms',
  },
  {
    name: 'a hold lasts longer than its time',
    standsFor: 'seats of players who never come stay empty',
    file: 'src/rules/lifecycle/server-sessions.ts',
    from: 'next.set(player, Math.max(next.get(player) ?? 0, now + holdMs))',
    to: 'next.set(player, Math.max(next.get(player) ?? 0, now + maxHoldMs))',
  },
]

const reservations: readonly PlantedBug[] = [
  {
    name: 'a reserved server is in the bucket of its state',
    standsFor: 'a server that is reserved for a tournament is given to others, scaled down or replaced',
    file: 'src/engine/state/queries.ts',
    from: "if (isSetAside(entry)) return 'setAside'",
    to: '',
  },
  {
    name: 'a server is reserved before that is stored',
    standsFor: 'after a failover, the reserved server is given to others',
    file: 'src/engine/instances/reservations.ts',
    from: "'ServerReserved')\n    await this.#save(entry)",
    to: "'ServerReserved')\n    this.#save(entry).catch(() => {})",
  },
  {
    name: 'a new leader does not watch the reservations that it has loaded',
    standsFor: 'a server is reserved for ever',
    file: 'src/engine/wiring.ts',
    from: 'seats.recordChanged(entry)\n    reservations.recordChanged(entry)',
    to: 'seats.recordChanged(entry)',
  },
  {
    name: 'a reservation ends at half its time',
    standsFor: 'a server is given to others just before it is needed',
    file: 'src/engine/instances/reservations.ts',
    from: 'cancel: clock.after(ms, () => this.#due(entry))',
    to: 'cancel: clock.after(ms / 2, () => this.#due(entry))',
  },
]

const selfAllocation: readonly PlantedBug[] = [
  {
    name: 'a game is told that it has its own server before that is stored',
    standsFor: 'a game begins a session that the next leader gives away',
    file: 'src/engine/self-allocation.ts',
    from: 'const { SessionID } = await this.#deps.allocator.allocate(',
    to: 'const early = this.#deps.allocator.allocate({ server: entry.ref, sessionID }, { waitMs: 0 }).catch(() => {})\n    if (early) return sessionID\n    const { SessionID } = await this.#deps.allocator.allocate(',
  },
  {
    name: 'a game takes its own server although it is reserved',
    standsFor: 'a server that is reserved for a tournament plays something else',
    file: 'src/engine/self-allocation.ts',
    from: "if (entry.record.reservedUntil !== undefined) throw inUseError(entry, 'is reserved')",
    to: '',
  },
]

const selection: readonly PlantedBug[] = [
  {
    name: 'an atomic batch that does not wait is made in part',
    standsFor: 'a tournament begins with half of its matches',
    file: 'src/engine/allocation/batches.ts',
    from: 'if (!atomic)\n      return',
    to: 'if (!atomic || waitMs === 0)\n      return',
  },
  {
    name: 'an atomic batch keeps the servers that it has held when another session gets none',
    standsFor: 'servers that no caller can get are idle for ever',
    file: 'src/engine/allocation/batch-gate.ts',
    from: 'server.release()\n      reject(error)',
    to: 'reject(error)',
  },
  {
    name: 'a selector takes any server for one without a label',
    standsFor: 'a caller gets a server that does not fit its request',
    file: 'src/rules/planning/selection.ts',
    from: 'return text === undefined\n  }',
    to: 'return true\n  }',
  },
  {
    name: 'an allocation stores its session without what it changes',
    standsFor: 'more callers share a server than it has room for',
    file: 'src/engine/persistence/server-writer.ts',
    from: 'const changed = selection ? withChange(',
    to: 'const changed = selection && build === undefined ? withChange(',
  },
]

const several: readonly PlantedBug[] = [
  {
    name: 'room that is promised to a caller is offered to others',
    standsFor: 'a server gets more sessions than its build allows',
    seeds: 200,
    file: 'src/engine/state/candidates.ts',
    from: 'const taken = record.sessions.length + places.length',
    to: 'const taken = record.sessions.length',
  },
  {
    name: 'a report of an end ends every earlier session of the server',
    standsFor: 'one match that is over ends the others on its server',
    seeds: 200,
    file: 'src/rules/lifecycle/server-sessions.ts',
    from: 'return number >= session.number && sessionKey',
    to: 'return number >= session.number || sessionKey',
  },
  {
    name: 'a report of an end goes by the id of the session only',
    standsFor: 'a late report ends a later session with the same id',
    seeds: 200,
    file: 'src/rules/lifecycle/server-sessions.ts',
    from: 'return number >= session.number && sessionKey',
    to: 'return number > 0 && sessionKey',
  },
  {
    name: 'the numbers of sessions are given again',
    standsFor: 'reports of two sessions cannot be told apart',
    seeds: 200,
    file: 'src/rules/lifecycle/server-sessions.ts',
    from: 'return startedSessions\n}',
    to: 'return startedSessions && 1\n}',
  },
  {
    name: 'a game is told of a further session before it is stored',
    standsFor: 'after a host crash, a session has two servers',
    seeds: 200,
    file: 'src/engine/instances/heartbeats.ts',
    from: 'return entry.record.sessions.filter(',
    to: 'return [...entry.record.sessions, ...entry.places.map((one, i) => ({ ...one.session, number: lastNumber(entry.record) + 1 + i, startedAt: 0 }))].filter(',
  },
  {
    name: 'an allocation of a further session is answered before it is stored',
    standsFor: 'a match is lost when its host crashes',
    seeds: 200,
    file: 'src/engine/allocation/allocator.ts',
    from: 'try {\n          await writer.save(entry)\n',
    to: "try {\n          if (entry.record.state === 'Active') { void writer.save(entry).catch(() => {}); return allocationOf(entry, session.id) }\n          await writer.save(entry)\n",
  },
  {
    name: 'the end of one session terminates its server',
    standsFor: 'an operator who ends a match ends those of others',
    seeds: 200,
    file: 'src/engine/engine.ts',
    from: 'if (asksGame(entry, sessionID)) {',
    to: 'if (asksGame(entry, sessionID) && entry.record.sessions.length === 1) {',
  },
]

const probing: readonly PlantedBug[] = [
  {
    name: 'a lost answer to a probe counts as an empty game',
    standsFor: 'a lost packet ends a match',
    file: 'src/engine/instances/probed-games.ts',
    from: 'throw report.reason',
    to: 'return { count: 0, names: [] }',
  },
  {
    name: 'one failed probe makes a server Unhealthy',
    standsFor: 'a lost packet takes a server out of use',
    file: 'src/rules/game/probes.ts',
    from: 'return failures < (spec.failureThreshold ?? gameDefaults.failureThreshold)',
    to: 'return failures < 1',
  },
  {
    name: 'a new leader does not know which games have been told of their sessions',
    standsFor: 'a running match is started again after a restart of the host',
    file: 'src/engine/persistence/loader.ts',
    from: 'inventory.addServer(this.#findOrAddBuild(record), record, revision)',
    to: `inventory.addServer(this.#findOrAddBuild(record), {
      ...record, sessions: record.sessions.map((one) => ({ ...one, told: undefined })) }, revision)`,
  },
  {
    name: 'a probed session ends as empty before a player was there',
    standsFor: 'a match ends while its players load the map',
    file: 'src/rules/game/probes.ts',
    from: 'saidAt === undefined || !hadPlayers) return undefined',
    to: 'saidAt === undefined) return undefined',
  },
  {
    name: 'a probed game is reported as Active before it is told of its session',
    standsFor: 'players arrive before the session',
    file: 'src/engine/instances/probed-games.ts',
    from: 'this.#telling = this.#tell(session, spec.session)',
    to: "this.#beat(spec, 'Active'); this.#telling = this.#tell(session, spec.session)",
  },
  {
    name: 'a session lapses although its game has not said whether somebody plays',
    standsFor: 'a match with players ends because the network was away',
    file: 'src/engine/instances/heartbeats.ts',
    from: ' && !heartbeat.arePlayersOld)',
    to: ')',
  },
  {
    name: 'a probed game counts as empty for the time in which no game answered',
    standsFor: 'a match ends at once when the network is back between two rounds',
    seeds: 600,
    file: 'src/rules/game/probes.ts',
    from: 'return { ...before, unsaid: before.unsaid + 1 }',
    to: 'return before',
  },
  {
    name: 'a late report that an instance is pending ends the probes of its game',
    standsFor: 'a working server that is no longer asked is replaced',
    file: 'src/engine/instances/probed-games.ts',
    from: "instance !== undefined && instance.phase !== 'exited'",
    to: "instance?.phase === 'running'",
  },
  {
    name: 'a new leader does not read what a game has printed before',
    standsFor: 'a server is kept for ever by a match that has ended while no host was there',
    file: 'src/engine/instances/probed-games.ts',
    from: 'const tail = mayHaveMissed ? earlierLines : 0',
    to: 'const tail = 0',
  },
  {
    name: 'a log is not read again when its stream has broken',
    standsFor: 'a server is kept for ever by a match whose end nobody has read',
    file: 'src/engine/instances/probed-games.ts',
    from: `      return
    }
    this.#isOver = true`,
    to: `      return
    }`,
  },
  {
    name: 'a game that starts with its session is asked before it has one',
    standsFor: 'servers that wait for a session are replaced, because their game does not answer',
    file: 'src/engine/instances/probed-games.ts',
    from: 'if (!session?.startsGame || this.#isReady) return false',
    to: 'if (!session || this.#isReady || this.#isHeard) return false',
  },
  {
    name: 'a session is confirmed before its game has started',
    standsFor: 'players are refused by a game that still loads',
    file: 'src/engine/instances/probed-games.ts',
    from: "isTold && this.#isReady ? 'Active'",
    to: "isTold ? 'Active'",
  },
].map((bug) => ({ seeds: 300, ...bug }))

const journaling: readonly PlantedBug[] = [
  {
    name: 'a new leader does not read the journal',
    standsFor: 'a session that was answered just before its host ended gets a second server',
    file: 'adapters/kubernetes/store/journal/journal.ts',
    from: 'this.#adopt(found, isMine && !other)',
    to: '',
  },
  {
    name: 'entries leave the journal before their statuses are written',
    standsFor: 'a session is lost between two writes that together make it durable',
    file: 'adapters/kubernetes/store/journal/journal.ts',
    from: 'await this.#write([...this.#lines(), ...lines])',
    to: 'await this.#write(lines)',
  },
  {
    name: 'an allocation is answered before the journal is written',
    standsFor: 'a match is lost when its host crashes',
    file: 'adapters/kubernetes/store/journal/journal.ts',
    from: 'await this.#write([...this.#lines(), ...lines])',
    to: 'this.#write([...this.#lines(), ...lines]).catch(() => {})',
  },
  {
    name: 'the journal is written whatever its revision',
    standsFor: 'a deposed leader overwrites what the next one has written',
    file: 'test/simulation/models/journal-model.ts',
    from: "if (current?.revision !== revision) throw new FleetError('conflict', 'the journal has changed')",
    to: '',
  },
  {
    name: 'a write upon an entry does not say that it includes it',
    standsFor: 'an old entry overwrites a newer record when the next leader carries it out',
    file: 'adapters/kubernetes/store/journal/server-journal.ts',
    from: 'const next = await write(at, this.#journal.mark(beyond(revision)))',
    to: 'const next = await write(at, pending.entry.direct)',
  },
  {
    name: 'a late write wins over an entry that it did not know',
    standsFor: 'a write that was given up takes a server from the session that has been answered since',
    file: 'adapters/kubernetes/store/journal/journal-entries.ts',
    from: '|| upon === entry.direct',
    to: '',
  },
  {
    name: 'a read does not show what is in the journal',
    standsFor: 'a host takes its own session for lost, and gives it a second server',
    file: 'adapters/kubernetes/store/journal/journal-entries.ts',
    from: 'return pending.entry.uid === found.uid ? this.#withEntry(pending.entry, record) : { record, revision }',
    to: 'return { record, revision }',
  },
  {
    name: 'a list that was being read while a status was written shows neither the entry nor the status',
    standsFor: 'a new leader with many servers gives a session that the last one has answered a second server',
    file: 'adapters/kubernetes/store/journal/journal-entries.ts',
    from: 'if (Number(revision) < Number(ended.revision)) return this.#withEntry(ended.entry, record)',
    to: '',
  },
].map((bug) => ({ seeds: 300, journal: true, ...bug }))

export const plantedBugs: readonly PlantedBug[] = [
  ...allocation,
  ...scaling,
  ...life,
  ...records,
  ...watching,
  ...maintenance,
  ...serverData,
  ...claims,
  ...selection,
  ...seats,
  ...reservations,
  ...selfAllocation,
  ...several,
  ...probing,
  ...journaling,
]
