/** The event log: why a server was terminated, and reading it without unnoticed gaps. */
import { describe, expect, it } from 'vitest'
import type { EventsDropped, FleetEvent } from 'gamekeeper'
import { aBuild, ask, failureOf, only, playing, stage, untilReady, watched } from './stage.js'

describe('explain', () => {
  it('returns the events of a server that no longer exists, with the reason', async () => {
    const s = stage()
    const fleet = await s.open()
    await fleet.builds.create(aBuild({ standingBy: 1 }))
    await untilReady(s, fleet, 1)
    const { metadata } = only(await fleet.servers.list())
    only(s.backend.servers()).exit(3)
    await s.clock.advance(5_000)
    const { server, events, text } = await fleet.explain(metadata)
    expect(server).toBeUndefined()
    expect(events.map(({ type }) => type)).toEqual([
      'ServerCreated',
      'ServerStateChanged',
      'ServerStateChanged',
      'ServerHealthChanged',
      'ServerStateChanged',
      'ServerEnding',
      'ServerRemoved',
    ])
    expect(text).toContain(`${metadata.name} is terminating: the process exited with code 3`)
  })

  it('explains a server that still exists', async () => {
    const s = stage()
    const fleet = await s.open()
    await fleet.builds.create(aBuild({ standingBy: 1 }))
    await untilReady(s, fleet, 1)
    await fleet.allocate(ask(1))
    const { ref } = await playing(s, fleet, 1)
    const { server, text } = await fleet.explain(ref)
    expect(server?.status.state).toBe('Active')
    expect(text).toContain(`was allocated to session ${ask(1).sessionID}`)
  })

  it('fails with not-found for an unknown name', async () => {
    const fleet = await stage().open()
    expect((await failureOf(fleet.explain('arena-00000'))).code).toBe('not-found')
  })
})

describe('events', () => {
  it('are read from the log first, then live until the signal fires', async () => {
    const s = stage()
    const fleet = await s.open()
    await fleet.builds.create(aBuild({ standingBy: 1 }))
    await untilReady(s, fleet, 1)
    const reading = new AbortController()
    const read: (FleetEvent | EventsDropped)[] = []
    const done = (async () => {
      for await (const event of fleet.events({ from: 1, signal: reading.signal })) read.push(event)
    })()
    await s.clock.settle()
    const logged = read.length
    expect(read[0]).toMatchObject({ seq: 1 })
    await fleet.allocate(ask(1))
    await s.clock.settle()
    expect(read.length).toBeGreaterThan(logged)
    expect(read.map(({ seq }) => seq)).toEqual(read.map((_, i) => i + 1))
    reading.abort()
    await done
  })

  it('start with the next event when from is not set', async () => {
    const s = stage()
    const fleet = await s.open()
    const events = fleet.events()
    const next = events.next()
    await s.clock.settle()
    await fleet.builds.create(aBuild({ standingBy: 0 }))
    expect(await next).toMatchObject({ value: { type: 'BuildCreated' } })
  })

  it('start at the time of the call, even if the first event is read later', async () => {
    const s = stage()
    const fleet = await s.open()
    const events = fleet.events()
    await fleet.builds.create(aBuild({ standingBy: 0 }))
    expect(await events.next()).toMatchObject({ value: { type: 'BuildCreated' } })
  })

  it('end when the fleet is closed, after all earlier events have been delivered', async () => {
    const s = stage()
    const fleet = await s.open()
    const idle = watched(fleet.events().next())
    const behind = fleet.events()
    await fleet.builds.create(aBuild({ standingBy: 0 }))
    await s.clock.settle()
    const caughtUp = watched(fleet.events().next())
    await fleet.close()
    await s.clock.settle()
    expect(idle.outcome()).toMatchObject({ value: { value: { type: 'BuildCreated' } } })
    expect(caughtUp.outcome()).toEqual({ value: { done: true, value: undefined } })
    const read: string[] = []
    for await (const { type } of behind) read.push(type)
    expect(read).toEqual(s.events.map(({ type }) => type))
  })

  it('report a gap when the log has dropped events', async () => {
    const s = stage({ limits: { eventLogSize: 3 } })
    const fleet = await s.open()
    await fleet.builds.create(aBuild({ standingBy: 3 }))
    await untilReady(s, fleet, 3)
    const events = fleet.events({ from: 1 })
    const first = await events.next()
    expect(first.value).toMatchObject({ type: 'EventsDropped', from: 1 })
    const second = await events.next()
    expect(second.value.seq).toBe(first.value.seq + 1)
  })
})
