/** The default logger: warnings and errors on stderr, nothing else. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { describe, expect, it, vi } from 'vitest'
import { memoryBackend } from '../../adapters/memory/index.js'
import { loggerOf, stderrLogger } from '../../src/contracts/logger.js'
import { createFleet, FleetError, type FleetOptions, systemClock } from '../../src/index.js'
import { root } from '../package/sources.js'

function written(isTerminal: boolean) {
  const lines: string[] = []
  return { lines, logger: stderrLogger({ write: (line) => lines.push(line), isTerminal: () => isTerminal }) }
}

const failure = new FleetError('unavailable', 'the store is away', { cause: new Error('ECONNREFUSED') })

const ownCause = new Error('its own cause')
ownCause.cause = ownCause
const circle: Record<string, unknown> = {}
circle['circle'] = circle

const unserializable: readonly (readonly [string, unknown, string])[] = [
  ['an error that is its own cause', ownCause, 'its own cause'],
  ['an error with a circular cause', new Error('failed', { cause: circle }), 'failed'],
  ['an error with a bigint as its code', Object.assign(new Error('failed'), { code: 7n }), 'failed'],
  ['a circular object', circle, 'an object'],
  ['a bigint', 12n, '12'],
]

const failingListener = `
  import { createFleet } from './dist/src/index.js'
  import { memoryBackend } from './dist/adapters/memory/index.js'
  const fleet = await createFleet({ backend: memoryBackend() })
  fleet.on('BuildCreated', () => { throw new Error('thrown by a listener') })
  const template = { spec: { containers: [{ name: 'game' }] } }
  const spec = { buildID: 'a-1', standingBy: 0, max: 0, portsToExpose: [], template }
  await fleet.builds.create({ metadata: { name: 'arena' }, spec })
  await fleet.builds.delete('arena')
  await fleet.close()
  setImmediate(() => console.log('still here'))`

describe('the default logger', () => {
  it('writes JSON that keeps codes and causes of errors, when stderr is not a terminal', () => {
    const { lines, logger } = written(false)
    logger.warn({ server: 'arena-x7k2p', message: 'hidden' }, 'server crashed')
    logger.error({ err: failure }, 'event listener failed')
    const [warning, error] = lines.map((line): unknown => JSON.parse(line))
    expect(warning).toEqual({
      level: 'warn',
      time: expect.any(String),
      message: 'server crashed',
      server: 'arena-x7k2p',
    })
    const err = { message: 'the store is away', code: 'unavailable', cause: { message: 'ECONNREFUSED' } }
    expect(error).toMatchObject({ level: 'error', message: 'event listener failed', err })
  })

  it('writes one short coloured line on a terminal, which no value can break', () => {
    const { lines, logger } = written(true)
    logger.warn({ server: 'arena-x7k2p', cause: 'line\nbreak \u009B2J' }, 'server crashed')
    logger.error({ err: failure }, 'listener\nfailed')
    expect(lines).toEqual([
      '\u001B[33mgamekeeper warn\u001B[0m server crashed server=arena-x7k2p cause="line\\nbreak \\u009b2J"\n',
      '\u001B[31mgamekeeper error\u001B[0m listener\\u000afailed err="the store is away (unavailable): ECONNREFUSED"\n',
    ])
  })

  it.each(unserializable)('writes %s, on a terminal and elsewhere', (_, thrown, shown) => {
    for (const isTerminal of [true, false]) {
      const { lines, logger } = written(isTerminal)
      logger.error({ err: thrown, value: 1n }, 'event listener failed')
      expect(lines).toEqual([expect.stringContaining(shown)])
    }
  })

  it('does not end the host when the reader of stderr has gone', async () => {
    const host = spawn(process.execPath, ['--input-type=module', '--eval', failingListener], { cwd: root })
    host.stderr.destroy()
    const printed = text(host.stdout)
    const [code] = await once(host, 'exit')
    expect([code, await printed]).toEqual([0, 'still here\n'])
  })

  it('writes neither information nor debug lines', () => {
    const { lines, logger } = written(false)
    logger.info({}, 'information')
    logger.debug({}, 'detail')
    expect(lines).toEqual([])
  })

  it.each<[string, Pick<FleetOptions, 'logger'>, number]>([
    ['is used without an option', {}, 2],
    ['is not used with logger: false', { logger: false }, 0],
  ])('%s', async (_, option, count) => {
    const write = vi.spyOn(process.stderr, 'write').mockImplementation(() => true)
    const fleet = await createFleet({ backend: memoryBackend({ clock: systemClock }), ...option })
    fleet.on('BuildCreated', () => {
      throw new Error('thrown by a listener')
    })
    const rejects: () => unknown = () => Promise.reject(new Error('a listener rejected'))
    fleet.on('BuildCreated', rejects)
    const template = { spec: { containers: [{ name: 'game' }] } }
    const spec = { buildID: 'a-1', standingBy: 0, max: 0, portsToExpose: [], template }
    await fleet.builds.create({ metadata: { name: 'arena' }, spec })
    await fleet.close()
    const lines = write.mock.calls
      .map(([line]) => String(line))
      .filter((line) => line.includes('event listener failed'))
    write.mockRestore()
    expect(lines).toHaveLength(count)
  })

  it('gives way to a logger of the host app', () => {
    const { logger } = written(false)
    expect(loggerOf(logger)).toBe(logger)
  })
})
