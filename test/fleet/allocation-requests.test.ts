/** Allocations that are requested through the store use servers of their own namespace only. */
import { memoryBackend } from 'gamekeeper/memory'
import { describe, expect, it, onTestFinished } from 'vitest'
import { createFleet, type Fleet } from 'gamekeeper'
import type { AllocateRequested } from '../../src/contracts/sessions.js'
import { memoryStore } from '../../src/stores/memory.js'

async function scene() {
  const served: AllocateRequested[] = []
  let stops = 0
  const store = {
    ...memoryStore(),
    serveAllocations: (allocate: AllocateRequested) => (served.push(allocate), () => void stops++),
  }
  const fleet = await createFleet({ backend: memoryBackend(), store, logger: false })
  onTestFinished(() => fleet.close())
  for (const namespace of ['red', 'blue']) await createBuild(fleet, namespace)
  const request = (namespace: string, body: object) => {
    const [allocate] = served
    if (!allocate) throw new Error('not served')
    const options = { waitMs: 10 ** 9, caller: { name: 'test' }, signal: new AbortController().signal }
    return allocate({ namespace, request: body, ...options })
  }
  return { fleet, request, served, stops: () => stops }
}

async function createBuild(fleet: Fleet, namespace: string): Promise<void> {
  const template = { spec: { containers: [{ name: 'game', image: 'arena:1' }] } }
  const labels = { game: 'arena', [namespace]: 'yes' }
  const spec = { labels, buildID: `${namespace}-id`, standingBy: 2, max: 4, portsToExpose: [7777], template }
  await fleet.builds.create({ metadata: { namespace, name: 'arena' }, spec })
}

describe('an allocation that is requested in a namespace', () => {
  it('gets a server of a build in that namespace, and the node of it', async () => {
    const { request } = await scene()
    const { allocation, node } = await request('red', { buildID: 'red-id', sessionID: 'a' })
    expect([allocation.server.namespace, node]).toEqual(['red', 'memory'])
  })

  it.each([
    ['buildID', { buildID: 'blue-id' }, 'no build in namespace red has the buildID "blue-id"'],
    ['buildID', { buildID: 'arena' }, 'build arena has the buildID "red-id"'],
    ['select', { select: [{ builds: ['blue-id'] }] }, 'no build in namespace red is named by it'],
    ['select', { select: [{ buildLabels: { blue: 'yes' } }] }, 'no build in namespace red is named by it'],
  ])('is told by its %s that a build of another namespace does not exist', async (field, body, message) => {
    const { request } = await scene()
    const error = await request('red', { ...body, sessionID: 'a' }).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code: 'not-found', message: expect.stringContaining(message) })
    expect(error).toMatchObject({ message: expect.stringMatching(`^${field}: `) })
  })

  it('passes over the builds of other namespaces in a selector', async () => {
    const { request } = await scene()
    const select = [{ builds: ['blue-id'] }, { builds: ['blue-id', 'red-id'] }]
    const { allocation } = await request('red', { select, sessionID: 'a' })
    expect(allocation.server.namespace).toBe('red')
    const both = await request('red', { select: [{ buildLabels: { game: 'arena' } }], sessionID: 'b' })
    expect(both.allocation.server.namespace).toBe('red')
  })

  it('does not learn the server of a session in another namespace, and gets its own session again', async () => {
    const { fleet, request } = await scene()
    const { server } = await fleet.allocate({ buildID: 'blue-id', sessionID: 'theirs' }, { waitMs: 10_000 })
    const error = await request('red', { buildID: 'red-id', sessionID: 'theirs' }).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code: 'forbidden' })
    expect(String(error)).not.toContain(server.name)
    const again = await request('blue', { buildID: 'unknown by now', sessionID: 'theirs' })
    expect(again.allocation.server).toEqual(server)
  })

  it('is validated like every other', async () => {
    const { request } = await scene()
    const wrong = request('red', { buildID: 'red-id', sessionID: 'a', sessionCookie: 1 })
    await expect(wrong).rejects.toMatchObject({ code: 'invalid', message: expect.stringContaining('sessionCookie') })
  })

  it('is served while the fleet is open', async () => {
    const { fleet, served, stops } = await scene()
    expect([served.length, stops()]).toEqual([1, 0])
    await fleet.close()
    expect(stops()).toBe(1)
  })
})
