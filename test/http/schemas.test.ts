/** The schemas of the document and the rules that refuse: what one takes the other takes. */
import { fc, test } from '@fast-check/vitest'
import type * as z from 'zod'
import { describe, expect, it } from 'vitest'
import { openApiDocument } from '../../src/http/index.js'
import { allocationRequest, buildInput, buildPatch } from '../../src/http/openapi/schemas.js'
import type { Checked } from '../../src/rules/validation/problem.js'
import { readAllocationRequest, readBuildInput, readPatch } from '../../src/rules/validation/requests.js'
import { broken, valuesOf } from './generated.js'
import { schemaChecker } from './validated.js'

const document = openApiDocument()
const check = schemaChecker(document)

interface Row {
  readonly name: string
  readonly schema: z.ZodType
  readonly read: (body: unknown) => Checked<unknown>
  /** What JSON Schema has no words for, so that a body that it takes may yet be refused. */
  readonly besides: RegExp
}

const rows: readonly Row[] = [
  { name: 'AllocationRequest', schema: allocationRequest, read: readAllocationRequest, besides: /^$/ },
  { name: 'GameServerBuildPatch', schema: buildPatch, read: readPatch, besides: /^$/ },
  {
    name: 'GameServerBuildInput',
    schema: buildInput,
    read: readBuildInput,
    // It counts the characters of a text otherwise.
    besides: /must be at most spec\.max|must name one port|must be plain JSON, at most|but has \d+$/,
  },
]

describe.each(rows)('$name', ({ name, schema, read, besides }) => {
  const ref = { $ref: `#/components/schemas/${name}` }
  const values = valuesOf(document, ref)
  const bodies = fc
    .oneof(values, broken(values), broken(broken(values)), fc.jsonValue())
    .map((body): unknown => (body === undefined ? null : JSON.parse(JSON.stringify(body))))

  test.prop([bodies], { numRuns: 300 })('is refused by its rule when the schema refuses it, and only then', (body) => {
    const result = read(body)
    const parsed = schema.safeParse(body)
    expect([parsed.success, parsed.error?.message, body]).toEqual([result.ok, parsed.error?.message, body])
  })

  test.prop([bodies], { numRuns: 300 })('is described by the document whenever its rule takes it', (body) => {
    const result = read(body)
    const problem = check(ref, body)
    if (result.ok) expect(problem).toBeUndefined()
    else if (problem === undefined) expect(`${result.problem.field} ${result.problem.message}`).toMatch(besides)
  })
})

describe('the document', () => {
  it('names no schema that it has not, and has none that it does not name', () => {
    const text = JSON.stringify(document)
    const named = new Set(Array.from(text.matchAll(/"#\/components\/schemas\/(\w+)"/g), ([, name]) => name))
    expect(new Set(Object.keys(document.components['schemas'] ?? {}))).toEqual(named)
  })
})
