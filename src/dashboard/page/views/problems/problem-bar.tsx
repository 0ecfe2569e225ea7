/** What is wrong, above every view: the worst first, each with its cause, since when, and what to do about it. */
import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import type { FleetProblem, ProblemKind, Severity } from '../../../../rules/model/problems.js'
import { keyOf, type Ref } from '../../../../rules/model/resources.js'
import type { OperationName } from '../../../../http/operations.js'
import { rights } from '../../data/access.js'
import { connections, model, problems, staleness } from '../../data/live.js'
import { linkTo } from '../../data/router.js'
import { plural, withoutLogPath } from '../../data/words.js'
import { Dialog } from '../../parts/dialog.js'
import { Ago, Clock } from '../../parts/parts.js'
import { RaiseLimitAction, ResumeAction, ScaleAction } from '../build-actions.js'
import { LogTail } from '../log-tail.js'

const shownAtFirst = 3

export function ProblemBar() {
  const showsAll = useSignal(false)
  const { list = [], failure } = problems.value
  if (list.length === 0 && failure === undefined) return null
  const others = list.slice(shownAtFirst)
  return (
    <section class={`problems ${staleness.value ? 'stale' : ''}`} aria-label="Problems">
      <p class="hidden" role="status">
        {list[0] ? `${plural(list.length, 'problem')}: ${list[0].title}` : ''}
      </p>
      {failure ? (
        <p class="problems-unread" role="alert">
          What is wrong cannot be read: {failure.error.message}.{' '}
          {failure.at === undefined ? null : (
            <>
              Below is what was wrong at <Clock at={failure.at} />.{' '}
            </>
          )}
          Retrying.
        </p>
      ) : null}
      <ul>
        {list.map((problem, index) => (
          <Problem key={keyOfProblem(problem)} of={problem} isHidden={!showsAll.value && index >= shownAtFirst} />
        ))}
      </ul>
      {others.length === 0 ? null : (
        <button type="button" class="small" aria-expanded={showsAll} onClick={() => (showsAll.value = !showsAll.value)}>
          {showsAll.value ? 'Show fewer' : `Show ${others.length} more: ${summaryOf(others)}`}
        </button>
      )}
    </section>
  )
}

function keyOfProblem({ kind, build, title }: FleetProblem): string {
  return `${kind} ${build ? keyOf(build) : title}`
}

/** `2 degraded, 1 drained`. */
function summaryOf(list: readonly FleetProblem[]): string {
  const counts = new Map<Severity, number>()
  for (const { severity } of list) counts.set(severity, (counts.get(severity) ?? 0) + 1)
  return [...counts].map(([severity, count]) => `${count} ${severity}`).join(', ')
}

/** Hidden ones stay, so that a dialog that was opened from one does not go with it. */
function Problem({ of: problem, isHidden }: { readonly of: FleetProblem; readonly isHidden: boolean }) {
  const { severity, title, cause, action, since, build, server } = problem
  const place = build === undefined ? undefined : linkTo.build(build)
  const known = build && model.value.builds.get(keyOf(build))
  useEffect(() => {
    if (build && !isHidden) void rights.read(build)
  }, [build && keyOf(build), isHidden, connections.value])
  return (
    <li class={`problem-item ${severity} ${isHidden ? 'beyond' : ''}`}>
      <div>
        <p class="problem-title">
          <span class="severity">{severity}</span> {place === undefined ? title : <a href={place}>{title}</a>}
          {since === undefined ? null : (
            <span class="quiet">
              {' '}
              · <Ago at={since} />
            </span>
          )}
        </p>
        {cause === undefined ? null : (
          <p class="cause" title={cause}>
            {withoutLogPath(cause)}
          </p>
        )}
        <p class="quiet">{action}</p>
      </div>
      <div class="actions">
        {offers[problem.kind].map((offer) => {
          if (build === undefined || !isAllowed(offer, build)) return null
          switch (offer) {
            case 'log':
              return server ? <LastLog key={offer} of={server} cause={cause} /> : null
            case 'server':
              return server ? (
                <a key={offer} class="button small" href={linkTo.server(server)}>
                  Open the server
                </a>
              ) : null
            case 'limit':
              return known ? <RaiseLimitAction key={offer} build={known} isSmall /> : null
            case 'scale':
              return known ? <ScaleAction key={offer} build={known} isSmall /> : null
            case 'resume':
              return known ? <ResumeAction key={offer} build={known} isSmall /> : null
            case 'spec':
              return (
                <a key={offer} class="button small" href={linkTo.editSpec(build)}>
                  Edit spec
                </a>
              )
            case 'sessions':
              return (
                <a key={offer} class="button small" href={linkTo.sessionsWith(build.name)}>
                  Sessions
                </a>
              )
            case 'events':
              return (
                <a key={offer} class="button small" href={linkTo.eventsWith(build.name)}>
                  Events
                </a>
              )
          }
        })}
      </div>
    </li>
  )
}

type Offer = 'log' | 'server' | 'limit' | 'scale' | 'resume' | 'spec' | 'sessions' | 'events'

/** What helps, the first thing to do first. */
const offers: Readonly<Record<ProblemKind, readonly Offer[]>> = {
  Host: [],
  Unhealthy: ['log', 'spec', 'limit'],
  Crashing: ['log', 'spec'],
  CreateBlocked: ['events', 'spec'],
  Disappearing: ['events'],
  LateServers: ['events', 'spec'],
  LongSession: ['sessions', 'spec'],
  Draining: ['resume'],
  Clamped: ['scale', 'spec'],
  Invalid: ['spec'],
  ScalingOverridden: ['scale', 'spec'],
  BudgetReached: ['scale', 'spec'],
  MaxReached: ['scale', 'sessions'],
  ServersUnhealthy: ['log', 'server'],
  ServersPending: ['server', 'spec'],
}

const operationOf: Readonly<Partial<Record<Offer, OperationName>>> = {
  log: 'readLogs',
  limit: 'updateBuild',
  scale: 'patchBuild',
  resume: 'resumeBuild',
  spec: 'applyBuild',
}

function isAllowed(offer: Offer, build: Ref): boolean {
  const operation = operationOf[offer]
  return operation === undefined || rights.may(operation, build)
}

function LastLog({ of, cause }: { readonly of: Ref; readonly cause: string | undefined }) {
  const isOpen = useSignal(false)
  return (
    <>
      <button type="button" class="small" onClick={() => (isOpen.value = true)}>
        Last log
      </button>
      {isOpen.value ? (
        <Dialog title={`Last log of ${of.name}`} onClose={() => (isOpen.value = false)}>
          <div class="stack">
            <LogTail of={of} kept={cause} />
            <div class="actions">
              <button type="button" class="main" data-first onClick={() => (isOpen.value = false)}>
                Close
              </button>
              <a class="button" href={linkTo.server(of)} onClick={() => (isOpen.value = false)}>
                Open the server
              </a>
            </div>
          </div>
        </Dialog>
      ) : null}
    </>
  )
}
