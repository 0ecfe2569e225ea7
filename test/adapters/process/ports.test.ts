import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { cleanUp, freshDirectory, gameOf, onCleanUp, open, specOf, until } from './support.js'

afterEach(cleanUp)

const sleeper = (name: string, ports: readonly number[] = [7777]) => specOf(['sleep', '600'], { name, ports })

async function holdTcp(port: number, host: string): Promise<void> {
  const server = createServer().listen(port, host)
  await once(server, 'listening')
  onCleanUp(() => void server.close())
}

async function holdUdp(port: number, host: string): Promise<void> {
  const socket = createSocket('udp4').bind(port, host)
  await once(socket, 'listening')
  onCleanUp(() => void socket.close())
}

test('thirty servers created at once get thirty ports', async () => {
  const backend = open(freshDirectory(), { portRange: '18000-18199' })
  const specs = Array.from({ length: 30 }, (_, i) => sleeper(`arena-${i}`, [7777, 7778]))
  const instances = await Promise.all(specs.map((spec) => backend.create(spec)))
  const numbers = instances.flatMap((instance) => instance.ports.map((port) => port.public))
  expect(new Set(numbers).size).toBe(60)
  expect(numbers.every((port) => port >= 18_000 && port <= 18_199)).toBe(true)
})

test('ports in use by another program are skipped, whether TCP or UDP, on one address or all', async () => {
  await holdTcp(18_200, '0.0.0.0')
  await holdUdp(18_201, '0.0.0.0')
  await holdTcp(18_202, '127.0.0.1')
  await holdUdp(18_203, '127.0.0.1')
  const backend = open(freshDirectory(), { portRange: { first: 18_200, last: 18_204 } })
  expect((await backend.create(sleeper('arena-a'))).ports).toEqual([{ container: 7777, public: 18_204 }])
  await expect(backend.create(sleeper('arena-b'))).rejects.toMatchObject({
    code: 'ports-exhausted',
    retryable: true,
    message: expect.stringMatching(/18200-18204.*1 held by other servers of this fleet, 4 by other programs/),
  })
  expect(await backend.list()).toHaveLength(1)
})

test('a port that another program takes before the game opens it is not used for the next server', async () => {
  const backend = open(freshDirectory(), { portRange: { first: 18_250, last: 18_251 } })
  const go = join(freshDirectory(), 'go')
  const game = gameOf(
    `const fs = require('fs')
    const check = () => fs.existsSync(${JSON.stringify(go)}) && require('net').createServer().listen(process.env.PORT_7777)
    fs.watch(${JSON.stringify(dirname(go))}, check)
    check()`,
    { name: 'arena-a', ports: [7777] },
  )
  expect((await backend.create(game)).ports).toEqual([{ container: 7777, public: 18_250 }])
  await holdTcp(18_250, '0.0.0.0')
  writeFileSync(go, '')
  const exited = await until('it exits', async () => (await backend.list()).find(({ phase }) => phase === 'exited'))
  expect(exited).toMatchObject({ exitCode: 1 })
  expect(exited.interrupted).toBeUndefined()
  await backend.destroy(game.ref, game.uid, { graceMs: 0 })
  for (const name of ['arena-b', 'arena-c']) {
    expect((await backend.create(sleeper(name))).ports).toEqual([{ container: 7777, public: 18_251 }])
    await backend.destroy(sleeper(name).ref, `uid-of-${name}`, { graceMs: 0 })
  }
})

test('a port is released when its server is removed, and is reused as late as possible', async () => {
  const backend = open(freshDirectory(), { portRange: { first: 18_210, last: 18_212 } })
  const numberOf = async (name: string) => (await backend.create(sleeper(name))).ports[0]?.public
  expect(await numberOf('arena-a')).toBe(18_210)
  await backend.destroy(sleeper('arena-a').ref, 'uid-of-arena-a', { graceMs: 0 })
  expect([await numberOf('arena-b'), await numberOf('arena-c'), await numberOf('arena-d')]).toEqual([
    18_211, 18_212, 18_210,
  ])
  await expect(numberOf('arena-e')).rejects.toMatchObject({ code: 'ports-exhausted' })
})

test('ports of recovered servers stay reserved', async () => {
  const directory = freshDirectory()
  const portRange = { first: 18_220, last: 18_221 }
  const first = open(directory, { portRange })
  await first.create(sleeper('arena-a'))
  await first.close()
  const next = open(directory, { portRange })
  expect((await next.create(sleeper('arena-b'))).ports).toEqual([{ container: 7777, public: 18_221 }])
  await expect(next.create(sleeper('arena-c'))).rejects.toMatchObject({ code: 'ports-exhausted' })
})

test('a create that gets too few ports releases them', async () => {
  const backend = open(freshDirectory(), { portRange: { first: 18_230, last: 18_231 } })
  await expect(backend.create(sleeper('arena-a', [1, 2, 3]))).rejects.toMatchObject({ code: 'ports-exhausted' })
  expect((await backend.create(sleeper('arena-b', [1, 2]))).ports).toHaveLength(2)
})

test('a server without ports gets none', async () => {
  await holdTcp(18_240, '0.0.0.0')
  const backend = open(freshDirectory(), { portRange: '18240-18240' })
  expect((await backend.create(gameOf(''))).ports).toEqual([])
})

test('the game can listen on its port over TCP and UDP', async () => {
  const backend = open(freshDirectory(), { portRange: '18250-18260' })
  const code = `const s = require('net').createServer((c) => c.end('tcp')).listen(process.env.PORT_7777, '0.0.0.0');
    const u = require('dgram').createSocket('udp4').bind(Number(process.env.PORT_7777));
    u.on('message', (_, from) => u.send('udp', from.port, from.address))`
  const port = (await backend.create(gameOf(code, { ports: [7777] }))).ports[0]?.public ?? 0
  const socket = createSocket('udp4')
  onCleanUp(() => void socket.close())
  const knocking = setInterval(() => socket.send('hello', port, '127.0.0.1'), 20)
  const [answer] = await once(socket, 'message')
  clearInterval(knocking)
  expect(String(answer)).toBe('udp')
})
