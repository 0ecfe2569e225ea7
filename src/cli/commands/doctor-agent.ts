/** `gamekeeper doctor`: whether game servers reach the agent, from where they run. */
import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import { dockerBackend } from '../../../adapters/docker/index.js'
import { defaultClient } from '../../../adapters/docker/engine/client.js'
import { EngineApi } from '../../../adapters/docker/engine/engine-api.js'
import { systemClock } from '../../contracts/clock.js'
import { messageOf } from '../../contracts/errors.js'
import { codeOf } from '../../platform/error-code.js'
import { isObject } from '../../rules/validation/problem.js'
import type { Config } from '../../server/settings.js'
import type { Finding } from './doctor-games.js'

const timeoutMs = 10_000
/** Looked for on the engine; none is pulled. */
const usualImages = [
  'gamekeeper-example',
  'busybox',
  'alpine',
  'node',
  'node:22-slim',
  'node:20-slim',
  'debian',
  'ubuntu',
]
/** No other exit code of the probe. */
const noProgram = 42

/** Connects with what the image has. */
const probe = `
if command -v node >/dev/null; then
  exec node -e 'require("net").connect(process.argv[2], process.argv[1]).setTimeout(5000, () => process.exit(1))
    .on("connect", () => process.exit(0)).on("error", () => process.exit(1))' "$1" "$2"
elif command -v nc >/dev/null; then exec nc -z -w 5 "$1" "$2"
elif command -v bash >/dev/null; then exec timeout 5 bash -c 'exec 3<>"/dev/tcp/$0/$1"' "$1" "$2"
else exit ${noProgram}; fi`

/** For games that are processes of this machine. */
export async function checkAgent({ agentAddress, agentHost = '127.0.0.1', agentPort }: Config): Promise<Finding> {
  const check = 'agent'
  try {
    return await listening(agentHost, agentPort, async (port) => {
      const [host, called] = splitAddress(agentAddress ?? agentHost, port)
      const error = await connectError(host, called)
      if (error === undefined) return { check, ok: true, message: `games reach ${host}:${called}` }
      const message = `games cannot reach ${host}:${called}: ${error}; set --agent-address to an address of this machine, or leave it out`
      return { check, ok: false, message }
    })
  } catch (error) {
    return { check, ok: false, message: `${messageOf(error)}; set --agent-host to an address of this machine` }
  }
}

/** Starts a container that connects to the agent's address. `image`: default one of the usual ones that the engine has. */
export async function checkAgentFromContainer(config: Config, image: string | undefined): Promise<Finding> {
  const check = 'agent from a container'
  const { agentAddress, agentHost, agentPort, dataDir } = config
  const backend = dockerBackend({ directory: dataDir })
  try {
    const endpoint = await backend.agentEndpoint?.({
      ...(agentHost !== undefined && { host: agentHost }),
      signal: AbortSignal.timeout(timeoutMs),
    })
    const host = endpoint?.host ?? '127.0.0.1'
    return await listening(host, agentPort, async (port) => {
      const [called, calledPort] = splitAddress(agentAddress ?? endpoint?.advertisedHost ?? host, port)
      const shown = `${called}:${calledPort}`
      const code = await runProbe(called, calledPort, image)
      if (code === undefined)
        return { check, ok: true, message: 'not checked, since the engine has no usual image; name one with --image' }
      if (code === 0) return { check, ok: true, message: `containers reach ${shown}` }
      if (code === noProgram)
        return { check, ok: true, message: 'not checked, since the image has neither node nor nc nor bash' }
      const mend = `let the firewall pass traffic from containers to ${host}:${port}, or set --agent-host and --agent-address`
      return { check, ok: false, message: `containers cannot reach ${shown}; ${mend}` }
    })
  } catch (error) {
    const mend = 'set --agent-host and --agent-address to an address of this machine that containers reach'
    return { check, ok: false, message: `${messageOf(error)}; ${mend}` }
  } finally {
    await backend.close()
  }
}

/** Resolves with the exit code, or undefined if there is no image. */
async function runProbe(host: string, port: number, given: string | undefined): Promise<number | undefined> {
  const times = { readTimeoutMs: timeoutMs, changeTimeoutMs: 3 * timeoutMs }
  const api = new EngineApi({ client: defaultClient(), clock: systemClock, ...times, onTimeout: () => {} })
  const image = given ?? (await firstImage(api))
  if (image === undefined) return undefined
  const name = `gamekeeper-doctor-${Buffer.from(systemClock.randomBytes(6)).toString('hex')}`
  const id = await api.create(name, {
    Image: image,
    Entrypoint: ['sh', '-c', probe, 'sh', host, String(port)],
    Cmd: [],
    HostConfig: { ExtraHosts: ['host.docker.internal:host-gateway'] },
  })
  try {
    await api.start(id)
    await api.waitUntilStopped(id, timeoutMs)
    const container = await api.inspect(id)
    const state = isObject(container) ? container['State'] : undefined
    const code = isObject(state) && state['Running'] === false ? state['ExitCode'] : undefined
    return typeof code === 'number' ? code : 1
  } finally {
    await api.remove(id, true)
  }
}

async function firstImage(api: EngineApi): Promise<string | undefined> {
  for (const image of usualImages) if (await api.hasImage(image)) return image
  return undefined
}

/** Listens on the agent's port while `work` runs. If a host uses it already, that one is asked. */
async function listening<R>(host: string, port: number, work: (port: number) => Promise<R>): Promise<R> {
  const server = createServer((connection) => connection.destroy())
  try {
    server.listen(port, host)
    await once(server, 'listening')
  } catch (error) {
    if (codeOf(error) === 'EADDRINUSE') return work(port)
    throw error
  }
  try {
    const address = server.address()
    return await work(typeof address === 'object' && address !== null ? address.port : port)
  } finally {
    server.close()
  }
}

function connectError(host: string, port: number): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket = connect(port, host)
    const end = (result: string | undefined) => {
      socket.destroy()
      resolve(result)
    }
    socket.setTimeout(timeoutMs, () => end(`no answer within ${timeoutMs / 1000} s`))
    socket.once('connect', () => end(undefined)).once('error', (error) => end(error.message))
  })
}

/** The port of the address, or else `port`. */
function splitAddress(address: string, port: number): readonly [string, number] {
  const [, host = address, own] = /^(.*?)(?::(\d+))?$/.exec(address) ?? []
  // An IPv6 address without a port.
  if (address.split(':').length > 2 && !address.startsWith('[')) return [address, port]
  return [host.replaceAll(/[[\]]/g, ''), own === undefined ? port : Number(own)]
}
