/** Opens the store of a directory on a line of input, and closes it on the next one. Prints the results. */
import { createInterface } from 'node:readline'
import { FleetError } from '../../../src/contracts/errors.js'
import { fileStore } from '../../../src/stores/file.js'

const [directory = '', user] = process.argv.slice(2)
const input = createInterface({ input: process.stdin })[Symbol.asyncIterator]()
const say = (message: object) => process.stdout.write(`${JSON.stringify(message)}\n`)

say({ ready: true })
await input.next()
// Permissions do not apply to root, so a test of permissions switches the user.
if (user !== undefined && process.getuid?.() === 0) process.setuid?.(Number(user))
try {
  const store = await fileStore({ directory })
  say({ opened: process.pid })
  await input.next()
  await store.close()
} catch (error) {
  say(FleetError.is(error) ? { code: error.code, message: error.message } : { message: String(error) })
}
process.stdin.destroy()
