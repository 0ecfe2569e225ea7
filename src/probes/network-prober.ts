/**
 * The prober: asks games from this host, as players' programs and lists of servers do. What a game answers is read by src/rules/query; here
 * are sockets and time.
 */
import { backgroundClock, type Clock } from '../contracts/clock.js'
import { FleetError } from '../contracts/errors.js'
import type { ProbeAddress, Prober } from '../contracts/prober.js'
import type { NetworkProbe, PlayersProbe, PlayersReport, QueryProtocol } from '../rules/game/probes.js'
import { a2sQuery } from '../rules/query/a2s.js'
import { bedrockQuery } from '../rules/query/bedrock-ping.js'
import { playersInJson } from '../rules/query/json-players.js'
import { minecraftQuery } from '../rules/query/minecraft-status.js'
import type { QueryStep } from '../rules/query/query-step.js'
import { sqpQuery } from '../rules/query/sqp.js'
import { udpProbe } from '../rules/query/udp-probe.js'
import { type Attempt, Attempts, ProbeFailure } from './attempts.js'
import { DatagramLines } from './datagram-lines.js'
import { runDatagramQuery } from './datagram-query.js'
import { HostAddresses } from './host-addresses.js'
import { bodyText, checkStatus, type HttpTarget } from './http-get.js'
import { checkConnection, runStreamQuery } from './stream-probes.js'

const protocolNames: Readonly<Record<QueryProtocol, string>> = {
  a2s: 'A2S',
  minecraft: 'Minecraft',
  bedrock: 'Bedrock',
  sqp: 'SQP',
}

/**
 * Opens nothing before the first probe, and keeps no process running. Of a host name, the IPv4 address is asked if there is one. At most 256
 * probes run at once; further ones wait, and their time begins when it is their turn.
 */
export function openProber(clock: Clock = backgroundClock): Prober {
  const attempts = new Attempts(clock)
  const hosts = new HostAddresses(clock)
  const lines = new DatagramLines()

  const overDatagrams = async <T>(step: QueryStep<T>, { host, port }: ProbeAddress, attempt: Attempt): Promise<T> => {
    checkPort(port)
    const at = await hosts.find(host)
    attempt.signal.throwIfAborted()
    return runDatagramQuery(clock, step, attempt, (events) => lines.open(at, port, events))
  }
  const overStream = async <T>(
    { host, port }: ProbeAddress,
    attempt: Attempt,
    run: (at: Awaited<ReturnType<HostAddresses['find']>>) => Promise<T>,
  ): Promise<T> => {
    checkPort(port)
    const at = await hosts.find(host)
    attempt.signal.throwIfAborted()
    return run(at)
  }

  const query = (protocol: QueryProtocol, names: boolean, address: ProbeAddress, timeoutMs: number) =>
    attempts.run(
      `${protocolNames[protocol]} query of ${authorityOf(address)}`,
      timeoutMs,
      async (attempt): Promise<PlayersReport> => {
        switch (protocol) {
          case 'a2s':
            return overDatagrams(a2sQuery(names), address, attempt)
          case 'bedrock':
            return overDatagrams(bedrockQuery(clock.randomBytes(8)), address, attempt)
          case 'sqp':
            return overDatagrams(sqpQuery(), address, attempt)
          case 'minecraft':
            return overStream(address, attempt, (at) =>
              runStreamQuery(minecraftQuery(address.host, address.port), at, address.port, attempt),
            )
        }
      },
    )

  const http = <T>(
    path: string,
    address: ProbeAddress,
    timeoutMs: number,
    use: (target: HttpTarget, attempt: Attempt) => Promise<T>,
  ) =>
    attempts.run(`GET http://${authorityOf(address)}${path}`, timeoutMs, (attempt) =>
      overStream(address, attempt, (at) =>
        use({ at, port: address.port, path, authority: authorityOf(address) }, attempt),
      ),
    )

  return {
    async check(probe, address, timeoutMs) {
      const { tcp, udp, http: get, query: asked } = probe
      if (tcp) {
        return attempts.run(`TCP connection to ${authorityOf(address)}`, timeoutMs, (attempt) =>
          overStream(address, attempt, (at) => checkConnection(at, address.port, attempt)),
        )
      }
      if (udp) {
        return attempts.run(`UDP probe of ${authorityOf(address)}`, timeoutMs, async (attempt) => {
          const step = udpProbe(udp.send, udp.expect)
          if (step === undefined) throw new ProbeFailure('send and expect must be hexadecimal')
          return overDatagrams(step, address, attempt)
        })
      }
      if (get) return http(get.path, address, timeoutMs, checkStatus)
      if (asked) return void (await query(asked.protocol, false, address, timeoutMs))
      throw emptyProbe(probe)
    },

    async players(probe, address, timeoutMs) {
      const { query: asked, http: get } = probe
      if (asked) return query(asked.protocol, true, address, timeoutMs)
      if (!get) throw emptyProbe(probe)
      return http(get.path, address, timeoutMs, async (target, attempt) => {
        const answer = playersInJson(await bodyText(target, attempt), get.field)
        if (answer.kind === 'wrong') throw new ProbeFailure(`the answer ${answer.reason}`)
        return answer.result
      })
    },

    close() {
      attempts.close()
      lines.close()
    },
  }
}

function authorityOf({ host, port }: ProbeAddress): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`
}

function checkPort(port: number): void {
  if (!Number.isInteger(port) || port < 1 || port > 65_535) throw new ProbeFailure(`there is no port ${port}`)
}

/** Validation of builds admits no such probe, but a record may have been written without it. */
function emptyProbe(probe: NetworkProbe | PlayersProbe): FleetError {
  return new FleetError('unavailable', `the probe ${JSON.stringify(probe)} names nothing to ask`)
}
