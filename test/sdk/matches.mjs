/** A game that ends each match at once, until the one with the cookie `last`. Uses the built package. */
import { start } from 'gamekeeper/sdk'

const gsdk = await start({ onTerminate: () => process.exit(0) })
for (let session = await gsdk.readyForPlayers(); ; session = await gsdk.readyForNext()) {
  if (session.sessionCookie === 'last') process.exit(0)
}
