/** Runs a command in a container. The engine cannot end it, so it is followed until it ends by itself. */
import { Socket } from 'node:net'
import { Duplex } from 'node:stream'
import type { ExecOptions, ExecResult } from '../../../src/contracts/backend.js'
import { FleetError } from '../../../src/contracts/errors.js'
import { isObject } from '../../../src/rules/validation/problem.js'
import { CommandOutput, saysUnrunnable, commandKeepAliveMs } from '../../shared/command-output.js'
import { framesOf } from '../docker-client.js'
import { type EngineApi, messageFromEngine, statusOf } from '../engine-api.js'

/** Rejects as `Backend.exec` does. The signal only keeps it from being started. */
export async function execIn(
  api: EngineApi,
  id: string,
  command: readonly string[],
  { input, onStarted, signal }: ExecOptions,
): Promise<ExecResult> {
  const output = new CommandOutput()
  try {
    const exec = await api.createExec(id, command, input !== undefined, { signal })
    // Without the signal: the command might run already.
    const { stream, stop } = await api.startExec(exec)
    onStarted?.()
    // A command may take long and print nothing.
    if (stream instanceof Socket) stream.setKeepAlive(true, commandKeepAliveMs)
    // Without input, the engine would take the end of this side for that of the whole connection.
    if (input !== undefined && stream instanceof Duplex) stream.end(input)
    try {
      for await (const { payload } of framesOf(stream)) {
        const excess = output.push(payload)
        if (excess) throw excess
      }
    } finally {
      stop()
    }
    return { exitCode: await exitCodeOf(api, exec), output: output.text }
  } catch (error) {
    const status = statusOf(error)
    const message = messageFromEngine(error)
    if (status !== undefined && saysUnrunnable(message)) return { exitCode: 127, output: message }
    if (status === 404 || status === 409) throw new FleetError('not-found', message, { cause: error })
    if (FleetError.is(error)) throw error
    throw new FleetError('unavailable', `the command was lost: ${message}`, { cause: error })
  }
}

const askAgainMs = 50
const mostAnswers = 20

/** The engine may close the connection just before it knows the exit code. If the connection has broken, the command may still run. */
async function exitCodeOf(api: EngineApi, exec: string): Promise<number> {
  for (let answers = 0; answers < mostAnswers; answers++) {
    const state = await api.inspectExec(exec)
    if (isObject(state) && state['Running'] === false && typeof state['ExitCode'] === 'number') return state['ExitCode']
    await api.sleep(askAgainMs)
  }
  throw new FleetError('unavailable', 'the command was lost: the connection to the Docker engine has broken')
}
