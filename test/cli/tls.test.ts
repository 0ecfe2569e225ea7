/** The flags for HTTPS, against the bundled server with a certificate of its own, which asks its clients for theirs. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { certificates, type Certified, type Workshop } from '../http/certificates.js'
import { cli, launchCli, type RunningCli } from './cli.js'

let workshop: Workshop
let server: RunningCli
let urls: readonly string[] = []
let files: Record<'ca' | 'strangers' | 'empty', string>
let operator: Certified
let stranger: Certified

beforeAll(async () => {
  workshop = await certificates()
  const [own, other] = [await workshop.authority('own'), await workshop.authority('other')]
  const certified = await own.issue('server')
  operator = await own.issue('operator')
  stranger = await other.issue('stranger')
  files = { ca: own.cert, strangers: other.cert, empty: join(workshop.folder, 'empty.pem') }
  await writeFile(files.empty, '')
  const tls = { TLS_CERT: certified.cert, TLS_KEY: certified.key, TLS_CLIENT_CA: own.cert }
  const ports = { ALLOCATION_PORT: '0', MANAGEMENT_PORT: '0' }
  server = launchCli(['serve'], { cwd: workshop.folder, env: { BACKEND: 'memory', SAMPLE: 'on', ...ports, ...tls } })
  const [, allocation = '', management = ''] = await server.untilPrinted(
    /"allocation":"([^"]+)","management":"([^"]+)"/,
  )
  urls = ['--url', management, '--allocation-url', allocation]
}, 300_000)

afterAll(async () => {
  server.signal('SIGTERM')
  await server.exit()
  await workshop.remove()
}, 300_000)

function tlsFlags(ca: string, { cert, key }: Certified): readonly string[] {
  return ['--ca', ca, '--cert', cert, '--key', key]
}

it('reach both APIs with a CA and a client certificate, from flags, the environment and the file', async () => {
  const flags = tlsFlags(files.ca, operator)
  const listed = await cli(['get', 'builds', ...urls, ...flags])
  expect(listed).toMatchObject({ code: 0, stdout: expect.stringMatching(/\ndefault +arena /), stderr: '' })
  const [build] = JSON.parse((await cli(['get', 'builds', '--json', ...urls, ...flags])).stdout)
  const allocated = await cli(['allocate', build.spec.buildID, '--wait', '20', ...urls, ...flags])
  expect(allocated).toMatchObject({ code: 0, stdout: expect.stringContaining(' is on server default/arena-') })
  const event = await cli(['events', '--from', '1', '--limit', '1', ...urls, ...flags])
  expect(event).toMatchObject({ code: 0, stdout: expect.stringMatching(/^\S+ \w+: .+\n$/) })

  const env = { GAMEKEEPER_CA: files.ca, GAMEKEEPER_CERT: operator.cert, GAMEKEEPER_KEY: operator.key }
  expect(await cli(['status', ...urls], { env })).toMatchObject({ code: 0, stderr: '' })
  const config = join(workshop.folder, 'client.json')
  const client = { url: urls[1], ca: files.ca, cert: operator.cert, key: operator.key }
  await writeFile(config, JSON.stringify({ client }))
  expect(await cli(['status', '--config', config])).toMatchObject({ code: 0, stderr: '' })
})

it.each([
  ['no CA', () => [], 3, /self.signed certificate|unable to (verify|get)/],
  ["another server's CA", () => tlsFlags(files.strangers, operator), 3, /self.signed|unable to (verify|get)/],
  ['no client certificate', () => ['--ca', files.ca], 3, /certificate required|reset|hang up|alert/],
  ['the certificate of a stranger', () => tlsFlags(files.ca, stranger), 3, /unknown ca|reset|hang up|alert/],
  ['a certificate without its key', () => ['--ca', files.ca, '--cert', operator.cert], 2, /^--cert needs --key$/],
  ['a key without its certificate', () => ['--key', operator.key], 2, /^--key needs --cert$/],
  [
    'the key of another',
    () => tlsFlags(files.ca, { cert: operator.cert, key: stranger.key }),
    2,
    /^--cert and --key are not a certificate and its key: .*mismatch/,
  ],
  ['an empty CA file', () => ['--ca', files.empty], 2, /^--ca contains no certificate: /],
  [
    'a CA but an http URL',
    () => ['--ca', files.ca, '--url', 'http://127.0.0.1:1'],
    2,
    /^--ca needs HTTPS, but the URL is http:\/\/127\.0\.0\.1:1: set --url to one that begins with https:\/\/$/,
  ],
])('with %s say so', async (_, flags, code, message) => {
  const result = await cli(['get', 'builds', ...urls, ...flags()])
  expect({ code: result.code, stdout: result.stdout }).toEqual({ code, stdout: '' })
  expect(result.stderr.trimEnd().replace(/^gamekeeper: /, '')).toMatch(message)
  expect(result.stderr.trimEnd().split('\n')).toHaveLength(1)
})

it('from the environment without HTTPS are named by the variable', async () => {
  const env = { GAMEKEEPER_URL: 'http://127.0.0.1:1', GAMEKEEPER_CA: files.ca }
  expect(await cli(['status'], { env })).toEqual({
    code: 1,
    stdout: '',
    stderr:
      'gamekeeper: GAMEKEEPER_CA needs HTTPS, but the URL is http://127.0.0.1:1: set GAMEKEEPER_URL to one that begins with https://\n',
  })
})
