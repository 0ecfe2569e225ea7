/** How far a rolling change is: which servers run the version before it, which the current one, and what it waits for. */
import { keyOf } from '../../../../rules/model/resources.js'
import type { GameServerBuild } from '../../../../rules/model/wire.js'
import { model } from '../../data/live.js'
import { countsOf } from '../../data/model.js'
import { rolloutWaitsFor } from '../../data/spec-changes.js'
import { plural } from '../../data/words.js'

export function Rollout({ build }: { readonly build: GameServerBuild }) {
  const { rollout } = build.status
  if (rollout === undefined) return null
  const { updated, outdated } = rollout
  const total = updated + outdated
  return (
    <div class="rollout">
      <h2>Rolling change</h2>
      <progress value={updated} max={total} aria-label={`${updated} of ${total} servers run the current version`} />
      <p>
        <b>{outdated.toLocaleString('en')}</b> on the version before <span aria-hidden="true">→</span>{' '}
        <b>{updated.toLocaleString('en')}</b> of {plural(total, 'server')} on the current version
      </p>
      <p class="quiet">{rolloutWaitsFor(build, countsOf(model.value, keyOf(build.metadata)))}</p>
    </div>
  )
}
