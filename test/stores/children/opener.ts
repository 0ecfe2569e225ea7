/** Opens the stores in the given directories one after another, and prints what each contains or why it was refused. */
import { messageOf } from '../../../src/contracts/errors.js'
import { fileStore } from '../../../src/stores/file.js'

const say = (message: object) => process.stdout.write(`${JSON.stringify(message)}\n`)

for (const directory of process.argv.slice(2)) {
  say({ opening: directory })
  try {
    const store = await fileStore({ directory })
    if (store.damage) say({ directory, refused: store.damage.problems.join('; ') })
    else {
      const lists = await Promise.all([store.builds.list(), store.servers.list(), store.details.list()])
      say({ directory, found: JSON.stringify(lists) })
    }
    await store.close()
  } catch (error) {
    say({ directory, refused: messageOf(error) })
  }
}
