/**
 * Labels, annotations and counters of a server that somebody has edited in the metadata of its object, as `kubectl label`, `annotate` and
 * `edit` do. The data of a server are in its status, which these commands cannot change. Each edit is applied to the data once, when
 * the object is read; the next write of the status says which metadata have been applied. Pure.
 */
import { mergedData } from '../../../../src/rules/lifecycle/server-data.js'
import { type Counter, noData, type ServerData } from '../../../../src/rules/model/server-data.js'
import { isObject, shown } from '../../../../src/rules/validation/problem.js'
import { type Fields, fieldsAt } from '../../client/fields.js'
import type { KubeObject } from '../../client/kube-objects.js'

type Texts = Readonly<Record<string, string>>

export interface EditedMetadata {
  readonly labels: Texts
  readonly annotations: Texts
}

export interface EditedData {
  readonly data: ServerData | undefined
  /** A sentence for each edit of a counter that is not possible. */
  readonly refused: readonly string[]
}

/** The labels and annotations that people may edit. Undefined if there are none. `group`: the fleet's, whose own labels they are not. */
export function editedMetadata(object: KubeObject, group: string): EditedMetadata | undefined {
  const { labels, annotations } = fieldsAt(object, 'metadata')
  return metadataOf({ labels, annotations }, group)
}

/** What has been applied already, according to the status. */
export function appliedMetadata(status: Fields, group: string): EditedMetadata | undefined {
  const applied = status['appliedMetadata']
  return isObject(applied) ? metadataOf(applied, group) : undefined
}

/** The data with what has been edited since it was last applied. */
export function withEdits(
  data: ServerData | undefined,
  applied: EditedMetadata | undefined,
  edited: EditedMetadata | undefined,
  group: string,
): EditedData {
  if (!applied && !edited) return { data, refused: [] }
  const merged = mergedData(dataIn(applied, group), dataIn(edited, group), data)
  const { counters, refused } = editedCounters(merged ?? noData, applied, edited, group)
  return { data: merged && counters ? { ...merged, counters } : merged, refused }
}

/** An annotation `counters.<group>/<name>` sets a counter: `3`, or `3/10` with its capacity. */
function editedCounters(
  { counters }: ServerData,
  applied: EditedMetadata | undefined,
  edited: EditedMetadata | undefined,
  group: string,
): { readonly counters?: ServerData['counters']; readonly refused: readonly string[] } {
  const prefix = counterPrefix(group)
  const next: Record<string, Counter> = {}
  const refused: string[] = []
  for (const [key, text] of Object.entries(edited?.annotations ?? {})) {
    if (!key.startsWith(prefix) || applied?.annotations[key] === text) continue
    const name = key.slice(prefix.length)
    const before = Object.hasOwn(counters, name) ? counters[name] : undefined
    const [, count, capacity] = /^(\d{1,15})(?:\/(\d{1,15}))?$/.exec(text) ?? []
    if (!before) refused.push(`annotation ${key}: the server has no counter ${name}`)
    else if (count === undefined) {
      refused.push(`annotation ${key} must be a count, or a count and a capacity such as 3/10, but is ${shown(text)}`)
    } else {
      const counter = { count: Number(count), capacity: Number(capacity ?? before.capacity) }
      if (counter.count <= counter.capacity) next[name] = counter
      else refused.push(`annotation ${key}: the count ${count} is more than the capacity, which is ${counter.capacity}`)
    }
  }
  return { ...(Object.keys(next).length > 0 && { counters: { ...counters, ...next } }), refused }
}

/** Labels and annotations as data. Those that set counters are no annotations of the server. */
function dataIn(metadata: EditedMetadata | undefined, group: string): ServerData {
  if (!metadata) return noData
  const prefix = counterPrefix(group)
  const annotations = Object.entries(metadata.annotations).filter(([key]) => !key.startsWith(prefix))
  return { ...noData, labels: metadata.labels, annotations: Object.fromEntries(annotations) }
}

function metadataOf(fields: Fields, group: string): EditedMetadata | undefined {
  const [labels, annotations] = [textsIn(fields['labels'], group), textsIn(fields['annotations'], group)]
  return labels || annotations ? { labels: labels ?? {}, annotations: annotations ?? {} } : undefined
}

function textsIn(value: unknown, group: string): Texts | undefined {
  if (!isObject(value)) return undefined
  const texts: Record<string, string> = {}
  let isEmpty = true
  for (const [key, text] of Object.entries(value)) {
    if (typeof text !== 'string' || isForeign(key, group)) continue
    texts[key] = text
    isEmpty = false
  }
  return isEmpty ? undefined : texts
}

/** What the fleet itself, Kubernetes and kubectl keep in metadata. */
function isForeign(key: string, group: string): boolean {
  const domain = key.slice(0, Math.max(0, key.indexOf('/')))
  return domain === group || /(?:^|\.)(?:kubernetes|k8s)\.io$/.test(domain)
}

function counterPrefix(group: string): string {
  return `counters.${group}/`
}
