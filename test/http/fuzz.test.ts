/**
 * * Valid and invalid requests generated from the OpenAPI document, to a real fleet over real sockets: no answer is a 500 or
 * * undocumented.
 */
import { fc, test } from '@fast-check/vitest'
import { afterAll, beforeAll, describe, expect } from 'vitest'
import { fleetRoutes, openApiDocument, type OpenApiOptions } from '../../src/http/index.js'
import type { Fleet } from '../../src/contracts/fleet.js'
import { isObject } from '../../src/rules/validation/problem.js'
import { call, type Listener, listening } from './client.js'
import { build, buildID, memoryFleet } from './fleet.js'
import { broken, valuesOf } from './generated.js'
import { validator } from './validated.js'

/** Limits builds to a size that a test can run; a million servers would also be valid. */
const small = (name: string, value: unknown): unknown =>
  (name === 'standingBy' || name === 'max') && typeof value === 'number' && value > 9 ? 9 : value

describe.each<OpenApiOptions>([{}, { compat: 'thundernetes' }, { compat: 'agones' }])(
  'requests generated from the OpenAPI document for %j',
  (options) => {
    const document = openApiDocument(options)
    const validate = validator(options)
    let fleet: Fleet
    let server: Listener
    beforeAll(async () => {
      fleet = await memoryFleet()
      const { compat } = options
      server = await listening(fleetRoutes(fleet, compat ? { compat } : {}).nodeHandler)
    })
    afterAll(async () => {
      await server.close()
      await fleet.close()
    })

    const operations = Object.entries(document.paths).flatMap(([path, item]) =>
      Object.entries(item)
        .filter(([method]) => method !== 'parameters')
        .map(([method, operation]) => ({
          // An event stream does not end, so only its head is requested.
          method: path === '/api/v1/events' ? 'HEAD' : method.toUpperCase(),
          path,
          operation: isObject(operation) ? operation : {},
        }))
        // The other operations belong to `serve` and are tested there.
        .filter(() => path.startsWith(options.compat === 'agones' ? '/gameserverallocation' : '/api/')),
    )

    describe.each(operations)('$method $path', ({ method, path, operation }) => {
      // `.` and `..` would change the path.
      const name = fc.oneof(fc.webSegment(), text()).filter((segment) => !/^\.{0,2}$/.test(segment))
      const names = fc.oneof(fc.constant(['default', 'arena'] as const), fc.tuple(name, name))
      const requests = fc.record({
        path: names.map(([namespace, name]) =>
          path
            .replace('{namespace}', encodeURIComponent(namespace))
            .replace(/\{name\}|\{node\}/, encodeURIComponent(name)),
        ),
        query: fc.oneof(
          fc.constant(''),
          queryOf(operation),
          fc.webQueryParameters().map((query) => `?${query}`),
        ),
        body: bodyOf(operation),
        headers: fc.constantFrom<Readonly<Record<string, string>>>(
          {},
          { 'Content-Type': 'application/json' },
          { 'Content-Type': 'text/plain', Origin: 'https://elsewhere.example' },
          { Authorization: 'Bearer nobody', Accept: 'text/html', 'Accept-Encoding': 'br' },
          { 'Last-Event-ID': '3' },
          { 'Last-Event-ID': `${'x'.repeat(70)}-3` },
        ),
      })

      test.prop([requests], { numRuns: 60 })(
        'get a documented response, and never an unexpected error',
        async (request) => {
          if ((await fleet.builds.list()).length === 0) await fleet.builds.create(build({ standingBy: 0 }))
          const url = server.url + request.path + request.query
          const { status, headers } = await call(method, url, {
            body: request.body,
            headers: request.headers,
            validate,
          })
          // The memory backend keeps no logs.
          if (status === 500) expect(headers['gamekeeper-error']).toBe('unsupported')
          expect([...Object.keys(Object(operation['responses'])), '404']).toContain(String(status))
          if (status !== 201 && !(status === 200 && method !== 'GET')) return
          for (const { metadata } of await fleet.builds.list()) await fleet.builds.delete(metadata)
        },
        120_000,
      )
    })

    function text(): fc.Arbitrary<string> {
      return fc.string({ minLength: 1, maxLength: 80, unit: 'grapheme' })
    }

    function queryOf(operation: Readonly<Record<string, unknown>>): fc.Arbitrary<string> {
      const parameters = Array.isArray(operation['parameters']) ? operation['parameters'].filter(isObject) : []
      const values = parameters.map(({ name, schema }) =>
        fc.oneof(fc.double({ min: 0, max: 0.05 }), broken(valuesOf(document, schema))).map((value) => {
          const shown = typeof value === 'number' && value > 0.05 ? 61 : value
          // `String` would throw for some objects.
          const text = typeof shown === 'string' ? shown : (JSON.stringify(shown) ?? '')
          return `${String(name)}=${encodeURIComponent(text)}`
        }),
      )
      return fc.tuple(...values).map((pairs) => `?${pairs.join('&')}`)
    }

    /** Valid, invalid and truncated JSON, and other bytes. */
    function bodyOf(operation: Readonly<Record<string, unknown>>): fc.Arbitrary<string | Uint8Array | undefined> {
      const { requestBody } = operation
      const noise = fc.oneof(fc.constant(undefined), fc.string(), fc.uint8Array())
      if (!isObject(requestBody)) return noise
      const content = isObject(requestBody['content']) ? requestBody['content']['application/json'] : undefined
      const values = valuesOf(document, isObject(content) ? content['schema'] : undefined)
      const known = values.map((value) =>
        isObject(value) ? { ...value, ...('buildID' in value && { buildID }) } : value,
      )
      const json = fc.oneof(values, known, broken(values)).map((value) => JSON.stringify(value, small) ?? '')
      const cut = fc.tuple(json, fc.nat()).map(([whole, at]) => whole.slice(0, at % (whole.length + 1)))
      return fc.oneof({ arbitrary: json, weight: 4 }, cut, noise)
    }
  },
)
