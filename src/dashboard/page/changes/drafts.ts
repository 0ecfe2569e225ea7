/** Specs that are being edited, kept for this tab: leaving the view, a reload and a new sign-in lose nothing. Signing out removes them. */
import { keyOf, type Ref } from '../../../rules/model/resources.js'

export interface Draft {
  readonly text: string
  /** The build's spec when the edit began. */
  readonly base: string
}

export function keptDraft(of: Ref): Draft | undefined {
  const kept = sessionStorage.getItem(keyFor(of))
  if (kept === null) return undefined
  const draft: Draft = JSON.parse(kept)
  return draft
}

/** Undefined removes it. */
export function keepDraft(of: Ref, draft: Draft | undefined): void {
  if (draft === undefined) sessionStorage.removeItem(keyFor(of))
  else sessionStorage.setItem(keyFor(of), JSON.stringify(draft))
}

export function forgetDrafts(): void {
  for (const key of Object.keys(sessionStorage)) if (key.startsWith(prefix)) sessionStorage.removeItem(key)
}

const prefix = 'gamekeeper-draft '

function keyFor(of: Ref): string {
  return prefix + keyOf(of)
}
