/** Up to when the page offers the first allocation. */
import { expect, it } from 'vitest'
import { emptyModel, type StreamedEvent } from '../../../src/dashboard/page/data/model.js'
import { applyToServers, reduce } from '../../../src/dashboard/page/data/reduce.js'
import { firstStep } from '../../../src/dashboard/page/views/first-run/steps.js'

const build = { namespace: 'default', name: 'arena' }
const server = { namespace: 'default', name: 'arena-1' }
let seq = 0
const base = () => ({ seq: ++seq, at: 0, message: 'it happened', build })
const created: StreamedEvent = { type: 'BuildCreated', ...base() }
const ready: StreamedEvent = { type: 'ServerStateChanged', ...base(), server, from: 'Initializing', to: 'StandingBy' }
const allocated: StreamedEvent = { type: 'Allocated', ...base(), server, sessionID: 'one', waitedMs: 1 }
const active: StreamedEvent = { type: 'ServerStateChanged', ...base(), server, from: 'StandingBy', to: 'Active' }
const gone: StreamedEvent = { type: 'ServerRemoved', ...base(), server }

const arenaIn = (health: 'Healthy' | 'Unhealthy') => ({ spec: {}, status: { health, crashesCount: 3 } })
const withBuildIn = (health: 'Healthy' | 'Unhealthy') => ({
  ...emptyModel,
  builds: new Map([['default/arena', arenaIn(health) as never]]),
})
const withArena = withBuildIn('Healthy')

it('an empty fleet needs a build, then servers, then an allocation', () => {
  expect(firstStep(emptyModel)).toBe('build')
  expect(firstStep(reduce(withArena, [created]))).toBe('servers')
  expect(firstStep(reduce(withArena, [created, ready]))).toBe('allocation')
})

it('after an allocation nothing is offered, even if the match is over', () => {
  expect(firstStep(reduce(withArena, [created, ready, allocated, active, gone]))).toBeUndefined()
})

it('nothing is offered if the log does not go back to the creation of the build', () => {
  expect(firstStep(reduce(withArena, [ready]))).toBeUndefined()
  expect(firstStep(applyToServers(reduce(withArena, [created]), [ready, active]))).toBeUndefined()
})

it('nothing is offered while the only build is stopped: no first server is on its way', () => {
  expect(firstStep(reduce(withBuildIn('Unhealthy'), [created]))).toBeUndefined()
})
