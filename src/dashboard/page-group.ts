/** The paths of the dashboard: its files, and what the caller may do. */
import type { DashboardPage } from '../http/serve.js'
import { type OperationName, operationNames, operations } from '../http/operations.js'
import type { Authorize, GuardOptions } from '../http/access/guard.js'
import { guard } from '../http/access/guard.js'
import type { ApiRequest, Exchange, Handler } from '../http/core/exchange.js'
import type { RouteGroup } from '../http/route-binding.js'
import { acceptedEncoding } from '../http/core/content-encoding.js'
import { errorResponse, json, managementStatuses } from '../http/core/responses.js'
import { encodings, type PageFileName, readPageFile, throwIfMissing } from './page-files.js'

/** For the option `dashboard` of `serve`. Throws `internal` if the page's files are missing, as in a bundle that contains this package. */
export function dashboardPage(): DashboardPage {
  throwIfMissing()
  return { group }
}

function group(options: GuardOptions): RouteGroup {
  const { authorize } = options
  const pageGuard = guard(options)
  const rights: Handler = async (exchange) => json(200, { operations: await allowed(exchange, authorize) })
  return {
    handlers: {},
    pages: {
      '': atFolder(file('index.html')),
      '/dashboard/app.js': file('app.js'),
      '/dashboard/app.css': file('app.css'),
      '/dashboard/icon.svg': file('icon.svg'),
      '/dashboard/licences.txt': file('licences.txt'),
      '/dashboard/rights': pageGuard.before({ name: 'readStats', role: 'read' }, rights),
    },
    errorResponse: (error) => errorResponse(error, managementStatuses),
    guard: pageGuard,
  }
}

const contentTypes: Readonly<Record<PageFileName, string>> = {
  'index.html': 'text/html; charset=utf-8',
  'app.js': 'text/javascript; charset=utf-8',
  'app.css': 'text/css; charset=utf-8',
  'icon.svg': 'image/svg+xml',
  'licences.txt': 'text/plain; charset=utf-8',
}

const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
  "form-action 'none'",
].join('; ')

const headers = {
  'Content-Security-Policy': policy,
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
  // The browser keeps the files, and asks each time whether they have changed.
  'Cache-Control': 'no-cache',
}

function file(name: PageFileName): Handler {
  return async (exchange) => {
    const found = await readPageFile(name)
    const encoding = acceptedEncoding(
      exchange.header('accept-encoding') ?? '',
      encodings.filter((one) => one in found.encoded),
    )
    const { content, etag } = (encoding && found.encoded[encoding]) ?? found
    const own = { ...headers, Vary: 'Accept-Encoding', ETag: etag }
    if (isKnown(etag, exchange.header('if-none-match') ?? '')) return { status: 304, headers: own }
    const type = { 'Content-Type': contentTypes[name], ...(encoding && { 'Content-Encoding': encoding }) }
    return { status: 200, body: content, headers: { ...own, ...type } }
  }
}

/** A proxy may have weakened the tag. */
function isKnown(etag: string, header: string): boolean {
  return header.split(',').some((one) => one.trim().replace(/^W\//, '') === etag)
}

/** The page's links are relative to a folder, so its address has to end with a slash. */
function atFolder(handle: Handler): Handler {
  return async (exchange) => {
    const sent = exchange.sentPath
    if (sent === undefined || sent.endsWith('/')) return handle(exchange)
    return { status: 308, headers: { Location: `./${sent.slice(sent.lastIndexOf('/') + 1)}/` } }
  }
}

/**
 * Asks the host app's hook about every operation, so that the page offers only what the caller may do. With `?namespace=` and
 * `?name=`, the hook sees them as the parameters of the operations on that build or server.
 */
async function allowed(exchange: Exchange, authorize: Authorize | undefined): Promise<readonly OperationName[]> {
  if (authorize === undefined) return operationNames
  const asked = toThing(exchange)
  const verdicts = await Promise.all(operationNames.map((name) => isAllowed(asked, authorize, name)))
  return operationNames.filter((_, index) => verdicts[index])
}

function toThing(exchange: Exchange): ApiRequest {
  const parameters = new Map(['namespace', 'name'].map((name) => [name, exchange.query(name) ?? '']))
  return {
    method: exchange.method,
    path: exchange.path,
    query: () => undefined,
    param: (name) => parameters.get(name) ?? '',
    header: (name) => exchange.header(name),
    remoteAddress: exchange.remoteAddress,
    clientCertificate: () => exchange.clientCertificate(),
  }
}

async function isAllowed(request: ApiRequest, authorize: Authorize, name: OperationName): Promise<boolean> {
  try {
    const verdict = await authorize(request, { name, role: operations[name].role })
    return verdict === true || (typeof verdict === 'object' && verdict !== null)
  } catch {
    return false
  }
}
