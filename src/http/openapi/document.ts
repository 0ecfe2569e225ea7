/** Generates the OpenAPI 3.1 document for the HTTP API from the table of operations and what is said about each. Pure. */
import { aNumber, aString, checkOptions, strings } from '../../contracts/option-checks.js'
import { continueHeader } from '../../rules/model/wire.js'
import { operationNames, type OperationRow, operations, probeNames, probes, type Route } from '../operations.js'
import { SchemaComponents, type SchemaReference } from './json-schema.js'
import {
  compatType,
  type DescriptionOptions,
  type DocumentedName,
  type OperationDoc,
  operationDocs,
  queryDocs,
} from './operation-docs.js'
import { errorBody } from './schemas.js'

export interface OpenApiOptions extends DescriptionOptions {
  /** Operations to include. Default: all. */
  readonly operations?: readonly DocumentedName[]
}

export interface OpenApiDocument {
  readonly openapi: '3.1.0'
  readonly info: { readonly title: string; readonly version: string; readonly description: string }
  readonly servers: readonly { readonly url: string; readonly description?: string }[]
  readonly paths: Readonly<Record<string, Readonly<Record<string, unknown>>>>
  readonly components: Readonly<Record<string, Readonly<Record<string, unknown>>>>
}

/** Builds the document served at `/openapi.json`. docs/openapi.json is the version with all operations. */
export function openApiDocument(options: OpenApiOptions = {}): OpenApiDocument {
  checkOptions<OpenApiOptions>('openApiDocument', options, {
    operations: strings,
    compat: compatType,
    sessionIDs: aString,
    maxWaitMs: aNumber,
  })
  const described = operationDocs(options)
  const schemas = new SchemaComponents()
  const paths: Record<string, Record<string, unknown>> = {}
  for (const name of options.operations ?? [...operationNames, ...probeNames]) {
    const row = rows[name]
    // In OpenAPI, a parameter of the path is written {name}.
    const item = (paths[row.path.replaceAll(/:(\w+)/g, '{$1}')] ??= pathItem(row))
    item[row.method.toLowerCase()] = operationObject({ name, row, doc: described[name], options, schemas })
  }
  const responses = Object.fromEntries(
    errorStatuses.map((status) => [`Error${status}`, errorResponse(status, schemas.refTo(errorBody))]),
  )
  return {
    openapi: '3.1.0',
    info: {
      title: 'gamekeeper',
      version: 'v1alpha1',
      description: 'Keeps a fleet of dedicated game servers standing by, and allocates one in one call.',
    },
    servers: [{ url: '.', description: 'The host that serves this document.' }],
    paths,
    components: {
      schemas: schemas.all(),
      responses,
      securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } },
    },
  }
}

const rows: Readonly<Record<DocumentedName, Route & Partial<OperationRow>>> = { ...operations, ...probes }

function parametersIn({ path }: Route): readonly string[] {
  return [...path.matchAll(/:(\w+)/g)].map(([, name = '']) => name)
}

function pathItem(row: Route): Record<string, unknown> {
  const names = parametersIn(row)
  if (names.length === 0) return {}
  return {
    parameters: names.map((name) => ({ name, in: 'path', required: true, schema: { type: 'string', minLength: 1 } })),
  }
}

interface Described {
  readonly name: DocumentedName
  readonly row: Route & Partial<OperationRow>
  readonly doc: OperationDoc
  readonly options: DescriptionOptions
  readonly schemas: SchemaComponents
}

function operationObject({ name, row, doc, options, schemas }: Described): unknown {
  const { role, api = 'management', query = [] } = row
  const { tag = api, summary, headers = [], body, isBodyOptional = false, status = 200, answer, unavailable } = doc
  const { errorBody: ownBody } = doc
  const errorOf = (error: ErrorStatus) =>
    ownBody ? errorResponse(error, schemas.refTo(ownBody)) : { $ref: `#/components/responses/Error${error}` }
  const descriptions: Readonly<Record<string, object>> = queryDocs(options, doc.wait)
  const parameters = [
    ...query.map((parameter) => ({ name: parameter, ...descriptions[parameter], in: 'query' })),
    ...headers.map((parameter) => ({ ...parameter, in: 'header' })),
  ]
  const errors = [...(doc.errors ?? usualErrors(row, doc)), ...(role === undefined ? withoutRole : withRole)]
  return {
    operationId: name,
    tags: [tag],
    summary,
    description:
      role === undefined ? 'Requires no role.' : `Requires the role \`${role}\` where the host app assigns roles.`,
    security: role === undefined ? [] : [{}, { bearer: [] }],
    ...(parameters.length > 0 && { parameters }),
    ...(body && { requestBody: { required: !isBodyOptional, content: contentOf(body, schemas) } }),
    responses: {
      [status]: {
        description: 'Success.',
        ...(query.includes('continue') && pageHeaders),
        content: contentOf(answer, schemas),
      },
      ...Object.fromEntries(errors.map((error) => [error, errorOf(error)])),
      ...(unavailable && { 503: errorResponse(503, schemas.refTo(unavailable)) }),
    },
  }
}

function usualErrors(row: Described['row'], { body }: OperationDoc): readonly ErrorStatus[] {
  const errors = { 400: body || row.query, 404: parametersIn(row).length > 0, 413: body }
  return ([400, 404, 413] as const).filter((status) => errors[status])
}

const pageHeaders = {
  headers: {
    [continueHeader]: {
      description:
        'The value of `continue` for the next page. Absent from the last page and without `limit` or `continue`.',
      schema: { type: 'string' },
    },
  },
}

/** Errors common to all operations that the host app authenticates, authorizes and rate-limits. */
const withRole = [401, 403, 429, 500, 503] as const
const withoutRole = [500, 503] as const

const meanings = {
  400: 'The request is invalid; `error` says which part and why.',
  401: 'The caller is not authenticated.',
  403: 'The caller is not authorized.',
  404: 'Not found.',
  409: 'The change does not fit: a count or list would leave its range.',
  413: 'The body is too large.',
  429: 'Too many requests, or no server is standing by.',
  500: 'The operation failed; `error` says why.',
  503: 'This host cannot handle the request now. Retry here or at another host.',
} as const

type ErrorStatus = keyof typeof meanings

const errorStatuses = [400, 401, 403, 404, 409, 413, 429, 500, 503] as const satisfies readonly ErrorStatus[]

function errorResponse(status: ErrorStatus, schema: SchemaReference): unknown {
  const isTransient = status === 429 || status === 503
  return {
    description: meanings[status],
    headers: {
      'Gamekeeper-Error': { description: 'Error code, for programs.', required: true, schema: { type: 'string' } },
      ...(isTransient && {
        'Retry-After': {
          description: 'Seconds to wait before retrying.',
          required: true,
          schema: { type: 'integer', minimum: 1 },
        },
      }),
    },
    content: { 'application/json': { schema } },
  }
}

function contentOf(answer: OperationDoc['answer'], schemas: SchemaComponents): unknown {
  if ('mediaType' in answer)
    return { [answer.mediaType]: { schema: { type: 'string', description: answer.description } } }
  return { 'application/json': { schema: schemas.refTo(answer) } }
}
