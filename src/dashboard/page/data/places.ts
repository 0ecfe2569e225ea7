/** Reads where servers run, which no event says: of those that were started since the page read the fleet. */
import { keyOf } from '../../../rules/model/resources.js'
import { atMostEvery } from './at-most-every.js'
import { fleet, model } from './live.js'
import { type ServerRow, serversOf, withPlaces } from './model.js'

const readMs = 5_000

/** Soon afterwards, the model has the places of all servers that have been started. Call it while a view shows them. */
export const readPlaces = atMostEvery(readMs, () => void read())

let isReading = false

/** Before it is ready, a server may have no place yet. */
function isUnplaced({ state, place }: ServerRow): boolean {
  return place === undefined && (state === 'StandingBy' || state === 'Active')
}

async function read(): Promise<void> {
  if (isReading) return
  isReading = true
  try {
    for (const { metadata } of model.peek().builds.values()) {
      const key = keyOf(metadata)
      const lacks = [...serversOf(model.peek(), key).values()].some(isUnplaced)
      if (lacks) model.value = withPlaces(model.peek(), key, await fleet.servers.list({ build: metadata }))
    }
  } catch {
    // The build is deleted, or the host is away: the next call reads again.
  } finally {
    isReading = false
  }
}
