/** The OpenAPI document and request validation agree: each accepts what the other accepts. */
import { fc, test } from '@fast-check/vitest'
import { describe, expect, it } from 'vitest'
import { openApiDocument } from '../../src/http/index.js'
import { type Checked, isObject } from '../../src/rules/validation/problem.js'
import { readBuildInput, readPatch } from '../../src/rules/validation/build-schema.js'
import { readAllocationRequest } from '../../src/rules/validation/allocation-schema.js'
import { broken, valuesOf } from './generated.js'
import { schemaChecker } from './validated.js'

const document = openApiDocument()
const check = schemaChecker(document)

interface Row {
  readonly name: string
  readonly read: (body: unknown) => Checked<unknown>
  /** Rules that JSON Schema cannot express; the document accepts values that these rules reject. */
  readonly onlyRules: RegExp
}

const rows: readonly Row[] = [
  {
    name: 'AllocationRequest',
    read: readAllocationRequest,
    onlyRules:
      /is not allowed beside (decrement|increment|server)(; also|$)|for the (operator|order) [\w-]+(; also|$)|must have at most 16 entries|must name builds/,
  },
  { name: 'GameServerBuildPatch', read: readPatch, onlyRules: /^$/ },
  {
    name: 'GameServerBuildInput',
    read: readBuildInput,
    // JSON Schema counts code points, and validation UTF-16 code units.
    onlyRules:
      /must be at most spec\.max|must stand for one port|must not repeat \d+ with|must be plain JSON, at most|must be at most the capacity|must have at most 16 entries|(allowed|set) for the order|must be one of spec\.counters|bytes in all values together|but has \d+ characters(; also|$)|cannot be used with spec\.sessionsPerServer|must be a cron expression|a time that never comes|must be the name of a time zone|must have min, percent or both|must be at most spec\.scaling|must be an absolute http: or https: URL|must not contain credentials|\) together, but is \d|is only for a game without an SDK|must say how to tell that a game|must be 1 for a game without an SDK|must ask at (a )?port|needs (spec\.game\.players|a standard input)|counts from the start of the process|must begin with a program|must not contain \{|which is no port in spec\.portsToExpose/,
  },
]

describe.each(rows)('$name', ({ name, read, onlyRules }) => {
  const ref = { $ref: `#/components/schemas/${name}` }
  const values = valuesOf(document, ref)
  const bodies = fc
    .oneof(values, broken(values), broken(broken(values)), fc.jsonValue())
    .map((body): unknown => (body === undefined ? null : JSON.parse(JSON.stringify(body))))

  test.prop([bodies], { numRuns: 600 })('matches its schema exactly if it passes validation', (body) => {
    const result = read(body)
    const problem = check(ref, name === 'AllocationRequest' ? withoutNulls(body) : body)
    if (result.ok) expect(problem).toBeUndefined()
    else if (problem === undefined) expect(`${result.problem.field} ${result.problem.message}`).toMatch(onlyRules)
  })
})

/** In an allocation, a field that is null is absent: serializers of some languages write what is not set so. */
function withoutNulls(body: unknown): unknown {
  if (!isObject(body)) return body
  return Object.fromEntries(Object.entries(body).filter(([, value]) => value !== null))
}

describe('the document', () => {
  it('defines exactly the schemas that it references', () => {
    const text = JSON.stringify(document)
    const named = new Set(Array.from(text.matchAll(/"#\/components\/schemas\/(\w+)"/g), ([, name]) => name))
    expect(new Set(Object.keys(document.components['schemas'] ?? {}))).toEqual(named)
  })

  it('describes every field', () => {
    expect(undescribed(document.components['schemas'])).toEqual([])
  })
})

/** Paths of properties that have no description, neither their own nor in the referenced schema. */
function undescribed(value: unknown, path = ''): readonly string[] {
  if (typeof value !== 'object' || value === null) return []
  const properties: unknown = 'properties' in value ? value.properties : {}
  const missing = Object.entries(Object(properties)).flatMap(([name, part]) =>
    typeof part === 'object' && part !== null && !('description' in part) && !('$ref' in part)
      ? [`${path}.${name}`]
      : [],
  )
  return [...missing, ...Object.entries(value).flatMap(([name, part]) => undescribed(part, `${path}/${name}`))]
}
