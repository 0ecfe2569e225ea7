/** Which parts of a game's output `servers.logs` returns. */
import { memoryBackend } from 'gamekeeper/memory'
import { describe, expect, it } from 'vitest'
import type { LogsOptions } from '../../src/contracts/backend.js'
import type { Ref } from '../../src/rules/model/resources.js'
import { aBuild, only, stage, untilReady } from './stage.js'

/** A fleet with one server, on a backend that keeps logs. `lines` is the output of each server. */
async function opened(lines: (ref: Ref, options: LogsOptions) => AsyncGenerator<string>) {
  const scene = stage()
  const backend = {
    ...memoryBackend({ clock: scene.clock }),
    logs: (ref: Ref, options: LogsOptions = {}) => lines(ref, options),
  }
  const fleet = await scene.open({ backend })
  await fleet.builds.create(aBuild({ standingBy: 1, max: 1 }))
  await untilReady(scene, fleet, 1)
  const { record } = only(await scene.records.servers.list())
  return { scene, fleet, ref: { namespace: record.namespace, name: record.name }, token: record.token }
}

async function allOf(lines: AsyncIterable<string>): Promise<readonly string[]> {
  const all: string[] = []
  for await (const line of lines) all.push(line)
  return all
}

describe('servers.logs', () => {
  it('masks the secret of a server, as part of its session host id and alone', async () => {
    const secrets: string[] = []
    const { fleet, ref, token } = await opened(async function* ({ name }) {
      yield `Instance Id: ${name}.${secrets[0]}`
      yield `token ${secrets[0]}`
      yield 'ready'
    })
    secrets.push(token)
    expect(await allOf(fleet.servers.logs(ref))).toEqual([`Instance Id: ${ref.name}.***`, 'token ***', 'ready'])
    expect(await allOf(fleet.servers.logs(ref.name))).toHaveLength(3)
  })

  it('masks what a game has written so far of its session host id', async () => {
    const secrets: string[] = []
    const { fleet, ref, token } = await opened(async function* ({ name }) {
      yield `Instance Id: ${name}.${secrets[0]?.slice(0, 31)}`
      yield `token ${secrets[0]?.slice(0, 20)}`
    })
    secrets.push(token)
    expect(await allOf(fleet.servers.logs(ref))).toEqual([`Instance Id: ${ref.name}.***`, 'token ***'])
  })

  it('masks the session host id of a server that is gone', async () => {
    const { fleet } = await opened(async function* ({ name }) {
      yield `Instance Id: ${name}.${'0a'.repeat(16)}`
    })
    expect(await allOf(fleet.servers.logs('arena-old00'))).toEqual(['Instance Id: arena-old00.***'])
  })

  it('masks each line as it is written, and ends the backend’s log when the reader stops', async () => {
    let ended = false
    const { fleet, ref } = await opened(async function* ({ name }, { follow }) {
      try {
        for (;;) yield `${follow} ${name}.${'0a'.repeat(16)}`
      } finally {
        ended = true
      }
    })
    for await (const line of fleet.servers.logs(ref, { follow: true })) {
      expect(line).toBe(`true ${ref.name}.***`)
      break
    }
    expect(ended).toBe(true)
  })

  it('masks session host ids on a host that is closed, which knows no records', async () => {
    const { fleet, ref, token } = await opened(async function* ({ name }) {
      yield `Instance Id: ${name}.${'0a'.repeat(16)}`
    })
    expect(token).toMatch(/^[0-9a-f]{32}$/)
    await fleet.close()
    expect(await allOf(fleet.servers.logs(ref))).toEqual([`Instance Id: ${ref.name}.***`])
  })
})
