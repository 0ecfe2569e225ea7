/** Types for the part of @opentelemetry/api that is used, and the function that loads it. */
import { loadOptionalPackage, unusablePackage } from '../platform/packages.js'

export type Attributes = Readonly<Record<string, string | number | boolean>>

export interface Span {
  setAttributes(attributes: Attributes): unknown
  addEvent(name: string, attributes: Attributes, time: Date): unknown
  setStatus(status: { readonly code: number; readonly message?: string }): unknown
  recordException(error: Error | string): void
  end(time?: Date): void
}

export interface Tracer {
  /** Without `context`, the parent is the active span. */
  startSpan(name: string, options: SpanOptions, context?: unknown): Span
}

interface SpanOptions {
  readonly attributes: Attributes
  readonly startTime?: Date
}

/** Structural type for OpenTelemetry's `TracerProvider`. */
export interface TracerProviderLike {
  getTracer(name: string, version?: string): Tracer
}

/** Returns one header of a request. */
export type HeaderReader = (name: string) => string | undefined

interface HeaderGetter {
  get(carrier: HeaderReader, name: string): string | undefined
  keys(carrier: HeaderReader): string[]
}

export interface OpenTelemetry {
  readonly trace: TracerProviderLike & {
    getSpan(context: unknown): Span | undefined
    setSpan(context: unknown, span: Span): unknown
  }
  readonly context: { active(): unknown; with<T>(context: unknown, fn: () => T): T }
  readonly propagation: { extract(context: unknown, carrier: HeaderReader, getter: HeaderGetter): unknown }
  readonly ROOT_CONTEXT: unknown
  readonly SpanStatusCode: { readonly ERROR: number }
}

/** Throws `internal` if the package is missing or unusable. */
export function loadOpenTelemetry(): OpenTelemetry {
  const loaded = loadOptionalPackage('@opentelemetry/api', 'tracedFleet')
  if (isOpenTelemetry(loaded)) return loaded
  throw unusablePackage('@opentelemetry/api', 'tracedFleet')
}

function isOpenTelemetry(value: unknown): value is OpenTelemetry {
  const names = ['trace', 'context', 'propagation', 'ROOT_CONTEXT', 'SpanStatusCode']
  return typeof value === 'object' && value !== null && names.every((name) => Reflect.get(value, name) !== undefined)
}
