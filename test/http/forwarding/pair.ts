/** Two hosts of a fleet, and what tests ask of them. */
import { randomUUID } from 'node:crypto'
import { build, buildID, standingBy } from '../fleet.js'
import { type Host, hosts, until } from './hosts.js'

export const session = () => ({ buildID, sessionID: randomUUID() })

/** Two hosts, the first of which leads, with servers standing by. */
export async function pair(count = 4, options = {}) {
  const { election, open } = hosts()
  const [leader, other] = [await open(options), await open(options)]
  leader.lead()
  await until(async () => (await leader.fleet.health()).leads)
  await leader.fleet.builds.create(build({ standingBy: count, max: 2 * count }))
  await standingBy(leader.fleet, count)
  return { election, open, leader, other }
}

export const serverOf = async (host: Host, sessionID: string) =>
  (await host.fleet.servers.list()).find(({ status }) => status.sessionID === sessionID)?.metadata.name
