/** On a line of input opens the store of a directory and prints the result; on the next one closes it. */
import { createInterface } from 'node:readline'
import { FleetError } from '../../../src/contracts/errors.js'
import { fileStore } from '../../../src/stores/file.js'

const [directory = '', user] = process.argv.slice(2)
const input = createInterface({ input: process.stdin })[Symbol.asyncIterator]()
const say = (message: object) => process.stdout.write(`${JSON.stringify(message)}\n`)

say({ ready: true })
await input.next()
// Permissions do not apply to root, so a test of them switches the user.
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
