/** A host that loses leadership and regains it while its engine starts. */
import { createFleet, type Elector, FleetError, memoryStore, type Store } from 'gamekeeper'
import { memoryBackend } from 'gamekeeper/memory'
import { expect, it, onTestFinished } from 'vitest'

it('a host that leads again before its engine has started starts another, and logs no failure', async () => {
  let lose = () => {}
  let electAgain = () => {}
  const elector: Elector = {
    run(listener) {
      lose = () => listener.lost()
      electAgain = () => listener.elected()
      listener.elected()
      return () => Promise.resolve()
    },
  }
  const store = memoryStore()
  const { builds } = store
  let lists = 0
  const list: Store['builds']['list'] = (options) => {
    if (++lists > 1) return builds.list(options)
    lose()
    electAgain()
    return Promise.reject(new FleetError('not-leader', 'this host does not lead the fleet'))
  }
  const messages: string[] = []
  const log = (_: object, message: string) => void messages.push(message)
  const logger = { debug() {}, info() {}, warn: log, error: log }
  const changing: Store = { ...store, builds: { ...builds, list } }
  const fleet = await createFleet({ backend: memoryBackend(), store: changing, elector, agent: { port: 0 }, logger })
  onTestFinished(() => fleet.close())
  expect(await fleet.builds.list()).toEqual([])
  expect(lists).toBe(2)
  expect(messages).toEqual([])
})
