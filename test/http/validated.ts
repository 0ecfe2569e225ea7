/**
 * Checks answers against the OpenAPI document: the answer of a documented operation must have a documented status, the
 * documented headers and a valid body without undocumented fields. The test clients check every answer.
 */
import { Ajv2020 } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import { type OpenApiDocument, openApiDocument, type OpenApiOptions } from '../../src/http/index.js'
import { isObject } from '../../src/rules/validation/problem.js'

export interface SeenAnswer {
  readonly method: string
  /** The request's path and query. */
  readonly path: string
  readonly status: number
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>
  readonly text: string
}

/** Returns what is wrong with a response; undefined if it is valid or its operation is not documented. */
export type Validate = (answer: SeenAnswer) => string | undefined

export function validator(options: OpenApiOptions = {}): Validate {
  const document = openApiDocument(options)
  const check = schemaChecker(document)
  const patterns = Object.entries(document.paths).map(([path, item]) => {
    const pattern = path.replace(/\{\w+\}/g, '[^/]+')
    return { path, pattern: new RegExp(`^${pattern}/?$`), item }
  })

  return ({ method, path, status, headers, text }) => {
    // The path without the host app's mount path.
    const bare = /\/(?:api\/v1\/|gameserverallocation|metrics|healthz|readyz|openapi)[^?]*/.exec(path)?.[0] ?? ''
    const found = patterns.find(({ pattern }) => pattern.test(bare))
    const operation = found?.item[method.toLowerCase()]
    if (found === undefined || !isObject(operation)) return undefined
    // Another listener of this package may not serve this operation.
    if (status === 404 && text.startsWith('{"error":"nothing is served at ')) return undefined
    const what = `${status} of ${method} ${found.path}`
    const response = resolved(document, objectAt(operation, 'responses')[String(status)])
    if (response === undefined) return `${what} is not documented: ${text}`
    for (const [name, header] of Object.entries(objectAt(response, 'headers'))) {
      if (isObject(header) && header['required'] === true && headers[name.toLowerCase()] === undefined)
        return `${what} lacks ${name}`
    }
    const type = String(headers['content-type']).split(';')[0] ?? ''
    const content = objectAt(response, 'content')[type]
    if (!isObject(content)) return `${what} has the type ${type}, which is not documented`
    if (type !== 'application/json') return undefined
    const problem = check(content['schema'], JSON.parse(text))
    return problem && `the body of ${what} is not as documented: ${problem}: ${text}`
  }
}

let ofAll: Validate | undefined

/** Checks responses against the OpenAPI document of all operations. */
export const documented: Validate = (answer) => (ofAll ??= validator())(answer)

/** Checks errors only, for tests with a fake fleet that returns arbitrary values. */
export const documentedErrors: Validate = (answer) => (answer.status === 200 ? undefined : documented(answer))

/** Checks a value against a schema in the document. Objects must not have undocumented fields. */
export function schemaChecker(document: OpenApiDocument): (schema: unknown, value: unknown) => string | undefined {
  const ajv = new Ajv2020({ strict: true, allowUnionTypes: true, strictRequired: false })
  addFormats.default(ajv)
  ajv.addVocabulary(['components'])
  ajv.addSchema({ $id: 'document', components: closed(document.components) })
  return (schema, value) => {
    const ref = isObject(schema) ? String(schema['$ref']) : ''
    const validate = ajv.getSchema(`document${ref}`)
    if (validate === undefined) throw new Error(`the document has no ${ref}`)
    return validate(value) === true ? undefined : ajv.errorsText(validate.errors)
  }
}

/** The target of a `$ref`, or the value itself. */
export function resolved(document: OpenApiDocument, value: unknown): Readonly<Record<string, unknown>> | undefined {
  if (!isObject(value)) return undefined
  const { $ref } = value
  if (typeof $ref !== 'string') return value
  let at: unknown = document
  for (const name of $ref.replace('#/', '').split('/')) at = isObject(at) ? at[name] : undefined
  return isObject(at) ? at : undefined
}

function objectAt(value: Readonly<Record<string, unknown>>, name: string): Readonly<Record<string, unknown>> {
  const at = value[name]
  return isObject(at) ? at : {}
}

/** The schema, with `additionalProperties: false` unless it says otherwise. */
function closed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(closed)
  if (!isObject(value)) return value
  const entries = Object.fromEntries(Object.entries(value).map(([name, part]) => [name, closed(part)]))
  const open = value['type'] === 'object' && isObject(value['properties']) && !('additionalProperties' in value)
  return open ? { ...entries, additionalProperties: false } : entries
}
