/** Emits `Audited` for calls that name their caller. */
import type {
  AuditedAction,
  AuditedCallOptions,
  AuditedOutcome,
  Caller,
  CallerKind,
} from '../contracts/call-options.js'
import type { Clock } from '../contracts/clock.js'
import { type ErrorCode, FleetError, invalidInput } from '../contracts/errors.js'
import type { FleetEmitter } from '../contracts/events.js'
import type { Ref } from '../rules/model/resources.js'
import type { Problem } from '../rules/validation/problem.js'

/** What a call was about. The event has the same fields. */
export type AuditedSubject = { readonly node?: string; readonly sessionID?: string } & (
  | { readonly build?: never; readonly server?: never }
  | { readonly build: Ref; readonly server?: never }
  | { readonly build: Ref; readonly server: Ref }
)

interface AuditDependencies {
  readonly isEnabled: boolean
  readonly clock: Clock
  readonly emitter: FleetEmitter
}

/** After these errors, the call may have taken effect. */
const inconclusive: ReadonlySet<ErrorCode> = new Set(['unavailable', 'aborted', 'not-confirmed'])

const maxNameLength = 200

export class Audit {
  readonly #deps: AuditDependencies

  constructor(deps: AuditDependencies) {
    this.#deps = deps
  }

  /**
   * Makes a call and audits it. `subjectOf` gets the result, or undefined if the outcome is unknown; if it returns undefined
   * then, the call is known to have had no effect.
   */
  call<T>(
    action: AuditedAction,
    { caller }: AuditedCallOptions,
    subjectOf: (result: T | undefined) => AuditedSubject | undefined,
    call: () => Promise<T>,
  ): Promise<T> {
    return caller === undefined || !this.#deps.isEnabled ? call() : this.#audited(action, caller, subjectOf, call)
  }

  /** Audits a call that takes long, such as a drain, when it starts. */
  begun(action: AuditedAction, { caller }: AuditedCallOptions, subject: AuditedSubject): void {
    if (caller !== undefined && this.#deps.isEnabled) this.#emit(action, caller, 'begun', subject)
  }

  async #audited<T>(
    action: AuditedAction,
    caller: Caller,
    subjectOf: (result: T | undefined) => AuditedSubject | undefined,
    call: () => Promise<T>,
  ): Promise<T> {
    let result: T
    try {
      result = await call()
    } catch (error) {
      const subject = FleetError.is(error) && inconclusive.has(error.code) ? subjectOf(undefined) : undefined
      if (subject) this.#emit(action, caller, 'unknown', subject)
      throw error
    }
    this.#emit(action, caller, 'done', subjectOf(result) ?? {})
    return result
  }

  #emit(action: AuditedAction, caller: Caller, outcome: AuditedOutcome, subject: AuditedSubject): void {
    const known = knownCaller(caller)
    const at = this.#deps.clock.now()
    const { emitter } = this.#deps
    const { build, server, sessionID } = subject
    const type = 'Audited'
    // Every allocation comes here. A spread object would take ten times as long as a literal with all fields.
    if (server !== undefined && sessionID !== undefined) {
      emitter.emit({ type, at, message: '', action, caller: known, outcome, build, server, sessionID })
    } else emitter.emit({ ...subject, type, at, message: '', action, caller: known, outcome })
  }
}

/** Copies what an event may show. Separate literals, for the same reason. */
function knownCaller({ kind = 'host', name, address }: Caller): Caller & { readonly kind: CallerKind } {
  if (name === undefined) return address === undefined ? { kind } : { kind, address }
  const shortName = name.length > maxNameLength ? name.slice(0, maxNameLength) : name
  return address === undefined ? { kind, name: shortName } : { kind, name: shortName, address }
}

/** Options of calls that look like fields of their requests. */
const optionIn = /(?:^|\.)(waitMs|confirm)$/

export function refusedRequest({ field, message }: Problem): FleetError {
  const [, option] = optionIn.exec(field) ?? []
  if (option === undefined) return invalidInput({ field, message }, 'the request')
  const meant = `did you mean the option ${option} of the call?`
  return new FleetError('invalid', `${field} is not allowed in a request; ${meant}`)
}
