/** `gamekeeper attach`: prints what a game prints, and sends it what is typed. */
import { createInterface } from 'node:readline'
import type { Command } from 'commander'
import { addClientOptions, type ClientFlags, commandTarget } from '../client.js'
import { wholeNumber } from '../flags.js'
import type { Terminal } from '../terminal.js'

interface AttachFlags extends ClientFlags {
  readonly tail: number
}

export function addAttach(program: Command, terminal: Terminal): void {
  const command = program
    .command('attach')
    .description(
      'Print what the game of a server prints, and send it each line of stdin, until stdin or the server ends. Ctrl-C does not end the game. Its build needs stdin: true.',
    )
    .argument('<server>', 'Name of the server.')
    .option('--tail <lines>', 'How many of the lines before to print first.', wholeNumber(0, 1_000_000), 10)
  addClientOptions(command).action(async (server: string, { tail, json, ...flags }: AttachFlags) => {
    const { client, ref } = await commandTarget(terminal, flags)
    const { servers } = client
    const stop = new AbortController()
    const input = createInterface({ input: process.stdin })
    stop.signal.addEventListener('abort', () => input.close())
    const reader = terminal.untilReaderGone()
    const leave = () => stop.abort()
    reader.addEventListener('abort', leave)
    if (reader.aborted) leave()
    const print = async () => {
      const lines = servers.logs(ref(server), { follow: true, tail, signal: stop.signal })
      for await (const line of lines) terminal.print(json ? JSON.stringify({ line }) : line)
    }
    const send = async () => {
      for await (const line of input) await servers.writeStdin(ref(server), line)
    }
    // The end of one ends the other.
    await Promise.all([print, send].map((work) => work().finally(leave)))
  })
}
