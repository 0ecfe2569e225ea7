/** The OpenAPI 3.1 document of these APIs, made of the schemas and of what is told of each operation. Pure. */
import * as z from 'zod'
import { FleetError } from '../../contracts/errors.js'
import { type Described, type DescribedName, describedOperations } from './operation-docs.js'
import type { Compat } from '../api/compat.js'
import { operationNames, operations, probes, type Role } from '../api/operations.js'
import { errorBody, named } from './schemas.js'

export interface OpenApiOptions {
  /** Default: all that there are. */
  readonly operations?: readonly DescribedName[]
  readonly compat?: Compat | undefined
}

export interface OpenApiDocument {
  readonly openapi: '3.1.0'
  readonly info: { readonly title: string; readonly version: string; readonly description: string }
  readonly servers: readonly { readonly url: string; readonly description?: string }[]
  readonly paths: Readonly<Record<string, Readonly<Record<string, unknown>>>>
  readonly components: Readonly<Record<string, Readonly<Record<string, unknown>>>>
}

/** What is served at `/openapi.json` and kept in docs/openapi.json. Its one server is where it was got from. */
export function openApiDocument(options: OpenApiOptions = {}): OpenApiDocument {
  const described = describedOperations(options.compat)
  const paths: Record<string, Record<string, unknown>> = {}
  for (const name of options.operations ?? [...operationNames, ...probes]) {
    const operation = described[name]
    const path = (paths[operation.path] ??= pathItem(operation.path))
    path[operation.method] = operationObject(name, operation)
  }
  const responses = Object.fromEntries(errorStatuses.map((status) => [`Error${status}`, errorResponse(status)]))
  return {
    openapi: '3.1.0',
    info: {
      title: 'gamekeeper',
      version: 'v1alpha1',
      description: 'Keeps a fleet of dedicated game servers standing by and hands one out in one call.',
    },
    servers: [{ url: '.', description: 'Where this document was got from.' }],
    paths,
    components: {
      schemas: schemasFor([paths, responses]),
      responses,
      securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } },
    },
  }
}

function pathItem(path: string): Record<string, unknown> {
  const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name)
  if (names.length === 0) return {}
  return {
    parameters: names.map((name) => ({ name, in: 'path', required: true, schema: { type: 'string', minLength: 1 } })),
  }
}

function operationObject(name: DescribedName, described: Described): unknown {
  const { summary, tag, query = [], headers = [], body, status, answer, errors, unavailable } = described
  const { [name]: role }: Readonly<Partial<Record<DescribedName, Role>>> = operations
  const parameters = [
    ...query.map((parameter) => ({ ...parameter, in: 'query' })),
    ...headers.map((parameter) => ({ ...parameter, in: 'header' })),
  ]
  return {
    operationId: name,
    tags: [tag],
    summary,
    description: role === undefined ? 'Anybody may ask.' : `Takes the role \`${role}\`, where there are roles.`,
    security: role === undefined ? [] : [{}, { bearer: [] }],
    ...(parameters.length > 0 && { parameters }),
    ...(body && { requestBody: { required: true, content: { 'application/json': { schema: schemaOf(body) } } } }),
    responses: {
      [status]: { description: 'Done.', content: contentOf(answer) },
      ...Object.fromEntries(
        [...errors, ...(role === undefined ? withoutHooks : always)].map((error) => [
          error,
          { $ref: `#/components/responses/Error${error}` },
        ]),
      ),
      ...(unavailable && { 503: errorResponse(503, unavailable) }),
    },
  }
}

/** What stands before every operation, or may befall it. */
const always = [401, 403, 429, 500, 503] as const
/** Where nothing of a host stands before it. */
const withoutHooks = [500, 503] as const

const meanings = {
  400: 'The request is not as it should be; `error` names what is wrong.',
  401: 'Nobody knows who is calling.',
  403: 'The caller may not ask for this.',
  404: 'There is no such thing.',
  413: 'The body is too large.',
  429: 'Too many calls, or no server stands by.',
  500: 'The call has failed; `error` names the cause.',
  503: 'This host cannot do it now. Ask again, here or at another one.',
} as const

type ErrorStatus = keyof typeof meanings

const errorStatuses = [400, 401, 403, 404, 413, 429, 500, 503] as const satisfies readonly ErrorStatus[]

function errorResponse(status: ErrorStatus, body: z.ZodType = errorBody): unknown {
  const isPassing = status === 429 || status === 503
  return {
    description: meanings[status],
    headers: {
      'Gamekeeper-Error': { description: 'The code of the error, for programs.', schema: { type: 'string' } },
      ...(isPassing && {
        'Retry-After': { description: 'In seconds.', required: true, schema: { type: 'integer', minimum: 1 } },
      }),
    },
    content: { 'application/json': { schema: schemaOf(body) } },
  }
}

function contentOf(answer: Described['answer']): unknown {
  if (answer instanceof z.ZodType) return { 'application/json': { schema: schemaOf(answer) } }
  return { [answer.type]: { schema: { type: 'string', description: answer.description } } }
}

function schemaOf(schema: z.ZodType): { readonly $ref: string } {
  const id = named.get(schema)?.id
  if (id === undefined) throw new FleetError('internal', 'a schema of the document has no name in it')
  return { $ref: refTo(id) }
}

const refTo = (id: string) => `#/components/schemas/${id}`

/** Those that are pointed to, and those that these point to. */
function schemasFor(users: unknown): Readonly<Record<string, unknown>> {
  const { schemas } = z.toJSONSchema(named, { uri: refTo, io: 'input' })
  const wanted: Record<string, unknown> = {}
  const want = (text: string) => {
    for (const [, id = ''] of text.matchAll(/"#\/components\/schemas\/(\w+)"/g)) {
      if (id in wanted || schemas[id] === undefined) continue
      // The document says once what language it is in, and where each schema is.
      const { $schema: _schema, $id: _id, ...schema } = schemas[id]
      wanted[id] = schema
      want(JSON.stringify(schema))
    }
  }
  want(JSON.stringify(users))
  return Object.fromEntries(Object.entries(wanted).toSorted(([a], [b]) => (a < b ? -1 : 1)))
}
