/** A game that takes several sessions, and ends each when it is asked to. Uses the built package. */
import { createServer } from 'node:net'
import { start } from 'gamekeeper/sdk'

const gsdk = await start({ onTerminate: () => process.exit(0) })
gsdk.onSession((session) => session.onEnd(() => session.end()))
createServer().listen(0, '127.0.0.1')
await gsdk.readyForPlayers()
