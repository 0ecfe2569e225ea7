/** Says that what the page shows is not what is: since when, and why. Actions are off meanwhile. */
import { staleness } from '../../data/live.js'
import { Clock } from '../../parts/parts.js'

export function StaleBanner() {
  if (staleness.value === undefined) return null
  const { dataFrom, why } = staleness.value
  return (
    <div class="stale-banner" role="alert">
      <p>
        <b>
          Data from <Clock at={dataFrom} />, retrying.
        </b>{' '}
        This is how the fleet was then; actions are off. <span class="why">Cause: {why}.</span>
      </p>
    </div>
  )
}
