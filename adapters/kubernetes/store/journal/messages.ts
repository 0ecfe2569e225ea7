/** What operators are told about the journal. Pure. */

/** For the log. */
export const noJournal =
  'cannot use a journal, so each allocation is written by itself: install the definition of GameServerJournal, and grant `get`, `create` and `update` on gameserverjournals'

/** For the log. */
export const otherOwner =
  'the journal has another owner, so each allocation is written by itself until it is taken over again'

/** For the Event. */
export function leftOut(count: number): string {
  return `${count} entries of the journal were edited, and are left out. Sessions that were allocated within the second before the last leader ended may be missing.`
}
