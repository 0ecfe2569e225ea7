/** The journal of the Kubernetes store, for the simulation: the real code on the simulated store. */
import { type JournalEntry, openEntry, standingOf } from '../../adapters/kubernetes/store/journal/journal-entries.js'
import { ServerJournal } from '../../adapters/kubernetes/store/journal/server-journal.js'
import { serverStatus, withStatus } from '../../adapters/kubernetes/store/server-object.js'
import { silentLogger } from '../../src/contracts/logger.js'
import type { TestedJournal } from './models/tested-journal.js'

const key = new Uint8Array(32)
const opened = new Map<string, JournalEntry | undefined>()

export const kubernetesJournal: TestedJournal<JournalEntry> = {
  open: (parts) =>
    new ServerJournal({ ...parts, connections: 16, logger: silentLogger, key: () => key, warn: () => {}, withStatus }),
  statusOf: serverStatus,
  withStatus,
  entriesIn: (lines) => lines.map(entryIn).filter((entry) => entry !== undefined),
  isPending: (entry, found) => standingOf(entry, found) === 'pending',
}

function entryIn(line: string): JournalEntry | undefined {
  // The same lines are read again and again.
  if (!opened.has(line)) {
    if (opened.size > 10_000) opened.clear()
    opened.set(line, openEntry(line, key))
  }
  return opened.get(line)
}
