/** The test game of queries speaks as real games do: gamedig, which lists of servers use, understands it. SQP is not among what it knows. */
import { spawn } from 'node:child_process'
import { createRequire } from 'node:module'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { describe, expect, it, onTestFinished } from 'vitest'
import { openProber } from '../../src/probes/network-prober.js'
import { aGame, openGame } from './query-game.mjs'

/** As far as it is used here: the package has no types. */
interface GameDig {
  query(options: object): Promise<{
    readonly name: string
    readonly numplayers: number
    readonly maxplayers: number
    readonly players: readonly { readonly name?: string }[]
    readonly bots: readonly { readonly name?: string }[]
  }>
}

const { GameDig: gamedig }: { readonly GameDig: GameDig } = createRequire(import.meta.url)('gamedig')
const host = '127.0.0.1'

async function seenByGamedig(type: string, port: number) {
  const options = {
    type,
    host,
    address: host,
    port,
    givenPortOnly: true,
    socketTimeout: 20_000,
    attemptTimeout: 60_000,
  }
  const { name, numplayers, players, bots } = await gamedig.query({ ...options, maxRetries: 1 })
  return { name, numplayers, players: players.map((player) => player.name), bots: bots.length }
}

describe('the test game', () => {
  it.each([
    ['a2s', 'protocol-valve', '', ['amie', 'Zoë']],
    ['minecraft', 'protocol-minecraftvanilla', '', ['amie', 'Zoë']],
    ['bedrock', 'protocol-minecraftbedrock', 'The Arena', []],
  ] as const)('is understood in %s', async (protocol, type, name, players) => {
    const state = aGame()
    const { port, close } = await openGame(protocol, state)
    onTestFinished(close)
    expect(await seenByGamedig(type, port)).toMatchObject({ numplayers: 0, players: [] })
    state.players = ['amie', 'Zoë']
    const seen = await seenByGamedig(type, port)
    expect(seen).toMatchObject({ numplayers: 2, players: expect.arrayContaining([...players]) })
    if (name !== '') expect(seen.name).toBe(name)
  })

  it('is understood in A2S with a list in parts, and with bots', async () => {
    const state = aGame()
    state.players = Array.from({ length: 150 }, (_, i) => `a player with a long name ${i}`)
    const { port, close } = await openGame('a2s', state)
    onTestFinished(close)
    const { players } = await seenByGamedig('protocol-valve', port)
    expect(new Set(players)).toEqual(new Set(state.players))
    Object.assign(state, { players: ['amie'], bots: 3 })
    expect(await seenByGamedig('protocol-valve', port)).toMatchObject({ numplayers: 4, bots: 3 })
  })

  it('runs as a program that takes commands', async () => {
    const program = fileURLToPath(new URL('query-game.mjs', import.meta.url))
    const child = spawn(process.execPath, [program, '--protocol', 'a2s'], { stdio: ['pipe', 'pipe', 'inherit'] })
    onTestFinished(() => void child.kill('SIGKILL'))
    const prober = openProber()
    onTestFinished(() => prober.close())
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
    const line = async () => String((await lines.next()).value)
    const say = (command: string) => {
      child.stdin.write(`${command}\n`)
      return line()
    }
    const [, port = ''] = /^ready a2s (\d+)$/.exec(await line()) ?? []
    const players = () => prober.players({ query: { protocol: 'a2s' } }, { host, port: Number(port) }, 20_000)
    expect(await say('players amie ben')).toBe('done: players amie ben')
    expect(await players()).toEqual({ count: 2, names: ['amie', 'ben'] })
    expect(await say('players')).toBe('done: players')
    expect(await players()).toEqual({ count: 0, names: [] })
    expect(await say('start m-1')).toBe('session m-1 began')
    expect(await say('end m-1')).toBe('session m-1 ended')
    expect(await say('dance')).toBe('unknown command: dance')
    const exited = new Promise((resolve) => child.on('exit', resolve))
    child.kill('SIGTERM')
    expect(await exited).toBe(0)
  })
})
