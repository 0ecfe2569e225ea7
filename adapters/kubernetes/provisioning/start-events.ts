/** Finds out from a pod's Kubernetes Events why the pod has not started. Pure. */
import { textAt } from '../client/fields.js'
import { type KubeObject, revisionOf } from '../client/kube-objects.js'

export interface StartEvents {
  /** The latest warning, such as `FailedMount: …`. Undefined if the start has made progress since. */
  readonly warning?: string
  /** The latest event of any type. */
  readonly latest?: string
}

/** `sdkSecret` is the name of the pod's SDK secret, which is created after the pod, so that it is normal for it to be missing at first. */
export function startEventsIn(objects: readonly KubeObject[], sdkSecret: string | undefined): StartEvents {
  const events = objects
    .toSorted((a, b) => Number(revisionOf(a)) - Number(revisionOf(b)))
    .map((object) => ({
      isWarning: textAt(object, 'type') === 'Warning',
      reason: textAt(object, 'reason') ?? '',
      message: textAt(object, 'message') ?? '',
    }))
    .filter(({ message }) => sdkSecret === undefined || !message.includes(`secret "${sdkSecret}" not found`))
  const lastProgress = events.findLastIndex(({ reason }) => progress.has(reason))
  const warning = events
    .slice(lastProgress + 1)
    .findLast(({ isWarning, reason }) => isWarning && !irrelevant.has(reason))
  const latest = events.findLast(({ reason }) => !irrelevant.has(reason))
  return { ...(warning && { warning: textOf(warning) }), ...(latest && { latest: textOf(latest) }) }
}

/** Reasons of events that show that earlier obstacles are gone. */
const progress: ReadonlySet<string> = new Set(['Pulling', 'Pulled', 'Created', 'Started'])

/** Reasons of warnings that do not prevent the start of a pod that is on a node. */
const irrelevant: ReadonlySet<string> = new Set(['FailedScheduling', 'MissingClusterDNS', 'DNSConfigForming'])

/** Maximum length in characters. The middle of a longer text is omitted, because the cause is usually at the end. */
const maxLength = 500
const headLength = 160

/** Formats an event as one line. Shortens container ids, which change with each attempt. */
function textOf({ reason, message }: { readonly reason: string; readonly message: string }): string {
  const text = `${reason}: ${message}`
    .replace(/\s+/g, ' ')
    .replace(/\b([0-9a-f]{12})[0-9a-f]{52}\b/g, '$1')
    .trim()
  if (text.length <= maxLength) return text
  return `${text.slice(0, headLength)} … ${text.slice(text.length - (maxLength - headLength - 3))}`
}
