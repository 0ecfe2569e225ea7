/** Programs that do what "Try it" does. Pure. */

export interface TriedAllocation {
  readonly buildID: string
  readonly sessionID: string
  readonly initialPlayers: readonly string[]
  readonly waitSeconds: number
}

/** A command for a POSIX shell. */
export function asCurl(baseUrl: string, tried: TriedAllocation, needsToken: boolean): string {
  const { waitSeconds, ...body } = tried
  return [
    `curl -X POST ${quoted(`${baseUrl}/api/v1/allocate?wait=${waitSeconds}`)}`,
    `-H 'Content-Type: application/json'`,
    ...(needsToken ? ['-H "Authorization: Bearer $TOKEN"'] : []),
    `-d ${quoted(JSON.stringify(body, null, 2))}`,
  ].join(' \\\n  ')
}

export function asTypeScript(baseUrl: string, tried: TriedAllocation, needsToken: boolean): string {
  const { waitSeconds, ...request } = tried
  const token = needsToken ? `, token: process.env['TOKEN'] ?? ''` : ''
  return `import { fleetClient } from 'gamekeeper/client'

const fleet = fleetClient({ url: ${JSON.stringify(baseUrl)}${token} })
const server = await fleet.allocate(
  ${JSON.stringify(request, null, 2).replaceAll('\n', '\n  ')},
  { waitMs: ${waitSeconds * 1_000} },
)
console.log(server.address, server.ports)`
}

/** For a POSIX shell. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`
}
