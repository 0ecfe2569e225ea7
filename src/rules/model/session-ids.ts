/** Session ids: which are the same. Pure. */

export const guidPattern = '^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$'

const guid = new RegExp(guidPattern)
const guidLength = 36

export function isGuid(text: string): boolean {
  return text.length === guidLength && guid.test(text)
}

/**
 * Returns the same key for ids of the same session. GUIDs that differ only in case are the same. All other ids are compared
 * exactly: neither case nor Unicode normalization is ignored.
 */
export function sessionKey(sessionID: string): string {
  if (sessionID.length !== guidLength) return sessionID
  const lower = sessionID.toLowerCase()
  // This is on the hot path of allocations, and most GUIDs are in lower case already.
  return lower !== sessionID && guid.test(sessionID) ? lower : sessionID
}
