/** Which lines `servers.writeStdin` sends, and who learns of them. */
import { memoryBackend } from 'gamekeeper/memory'
import { describe, expect, it } from 'vitest'
import { aBuild, failureOf, only, stage, untilReady } from './stage.js'

async function opened(container: object = { stdin: true }, backend: object = {}) {
  const scene = stage()
  const memory = memoryBackend({ clock: scene.clock })
  const fleet = await scene.open({ backend: { ...memory, ...backend } })
  const template = { spec: { containers: [{ name: 'game', ...container }] } }
  const { metadata, spec } = aBuild({ standingBy: 1, max: 1 })
  await fleet.builds.create({ metadata, spec: { ...spec, template } })
  await untilReady(scene, fleet, 1)
  const server = only(memory.servers())
  return { scene, fleet, server, ref: server.ref }
}

describe('servers.writeStdin', () => {
  it('sends one line, with or without its line break', async () => {
    const { fleet, server, ref } = await opened()
    for (const line of ['say hello', 'save\n', 'stop\r\n', '', '\n', 'x'.repeat(4_095), 'über']) {
      await fleet.servers.writeStdin(ref, line)
    }
    expect(server.stdin).toEqual(['say hello', 'save', 'stop', '', '', 'x'.repeat(4_095), 'über'])
  })

  it.each([
    ['say hello\nstop', 'line must have no control characters, but has U+000A at position 10'],
    ['stop\n\n', 'line must have no control characters, but has U+000A at position 5'],
    ['\u0003', 'line must have no control characters, but has U+0003 at position 1'],
    ['ü'.repeat(2_048), 'line must have at most 4095 bytes of UTF-8, but has 4096'],
    [7, 'line must be a string, but is 7'],
  ])('refuses more than one line, other control characters, and what is too long (%#)', async (line, message) => {
    const { fleet, server, ref } = await opened()
    expect(await failureOf(fleet.servers.writeStdin(ref, line as string))).toMatchObject({ code: 'invalid', message })
    expect(server.stdin).toEqual([])
  })

  it('is refused by a server without stdin: true, by one that is gone, and by a backend without it', async () => {
    const without = await opened({})
    expect(await failureOf(without.fleet.servers.writeStdin(without.ref, 'stop'))).toMatchObject({
      code: 'no-stdin',
      message: expect.stringContaining('its template has no stdin: true'),
      retryable: false,
    })
    expect(await failureOf(without.fleet.servers.writeStdin('nobody', 'stop'))).toMatchObject({ code: 'not-found' })
    const unable = await opened({ stdin: true }, { writeStdin: undefined })
    expect(await failureOf(unable.fleet.servers.writeStdin(unable.ref, 'stop'))).toMatchObject({ code: 'unsupported' })
  })

  it('is audited without the line, unless it was refused', async () => {
    const { scene, fleet, ref } = await opened()
    await fleet.servers.writeStdin(ref, 'login hunter2', { caller: { name: 'amie' } })
    await failureOf(fleet.servers.writeStdin(ref, '\u0003', { caller: { name: 'amie' } }))
    const event = only(scene.eventsOf('Audited'))
    expect(event).toMatchObject({ action: 'writeStdin', outcome: 'done', server: ref })
    expect(event.message).toBe(`host amie sent a line to server default/${ref.name}`)
    expect(JSON.stringify(event)).not.toContain('hunter2')
  })
})
