/** A host that loses leadership and regains it while its engine starts, and one that cannot lead. */
import { createFleet, type ElectionListener, type Elector, FleetError, memoryStore, type Store } from 'gamekeeper'
import { virtualClock } from 'gamekeeper/testing'
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

it('a host that cannot lead says why at once, and after a minute in its health and once in the log', async () => {
  const clock = virtualClock()
  let listener: ElectionListener | undefined
  const elector: Elector = {
    run(given) {
      listener = given
      given.lost()
      return () => Promise.resolve()
    },
  }
  const errors: unknown[] = []
  const logger = { debug() {}, info() {}, warn() {}, error: (fields: object) => void errors.push(fields) }
  const backend = memoryBackend({ clock })
  const fleet = await createFleet({ backend, elector, agent: { external: '127.0.0.1:1' }, clock, logger })
  onTestFinished(() => fleet.close())
  const refusal = () => fleet.builds.list().catch((error: unknown) => FleetError.is(error) && error.message)
  const cause = 'the credentials are not valid'
  listener?.blocked?.(cause)
  expect(await refusal()).toBe(`this host cannot lead the fleet now: ${cause}`)
  expect(await fleet.health()).toMatchObject({ canLead: true, ready: false })
  await clock.advance(30_000)
  // The next attempt fails, too, which does not begin the minute anew.
  listener?.blocked?.(cause)
  await clock.advance(30_000)
  expect(await fleet.health()).toMatchObject({ canLead: false, ready: false })
  expect((await fleet.health()).problems[0]).toContain(cause)
  await clock.advance(120_000)
  expect(errors).toEqual([{ cause }])
  listener?.blocked?.(undefined)
  expect(await fleet.health()).toMatchObject({ canLead: true })
  expect(await refusal()).toBe('this host does not lead the fleet')
})
