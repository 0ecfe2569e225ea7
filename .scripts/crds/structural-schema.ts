/**
 * Converts the schemas in `rules/validation` to structural schemas for custom resource definitions (apiextensions.k8s.io/v1).
 * Pure.
 */
import type { MapSchema, ObjectSchema, Schema } from '../../src/rules/validation/schema.js'

export type StructuralSchema = Readonly<Record<string, unknown>>

/** Keeps all bounds. For fields that users write. */
export function structural(schema: Schema): StructuralSchema {
  const { description } = schema
  return {
    ...(description !== undefined && { description }),
    type: typeof schema.type === 'string' ? schema.type : undefined,
    ...nullable(schema),
    ...bounds(schema),
    ...parts(schema, structural),
  }
}

/**
 * Keeps types and enum values but drops bounds. For fields that only hosts write, so that hosts with different versions can
 * share a cluster.
 */
export function unbounded(schema: Schema): StructuralSchema {
  const { description, type } = schema
  return {
    ...(description !== undefined && { description }),
    type,
    ...nullable(schema),
    ...('format' in schema && { format: schema.format }),
    ...('enum' in schema && { enum: schema.enum }),
    ...('items' in schema && { items: unbounded(schema.items) }),
    ...('properties' in schema && { properties: eachOf(schema.properties, unbounded) }),
    ...('additionalProperties' in schema && values(schema, unbounded)),
  }
}

export function eachOf<T extends Schema>(
  properties: Readonly<Record<string, T>>,
  write: (schema: T) => StructuralSchema,
): Readonly<Record<string, StructuralSchema>> {
  return Object.fromEntries(Object.entries(properties).map(([name, schema]) => [name, write(schema)]))
}

function nullable(schema: Schema): StructuralSchema {
  const mayBeEmpty = schema.type === 'string' && schema.mayBeEmpty === true
  return schema.nullable || mayBeEmpty ? { nullable: true } : {}
}

const sameKeywords: ReadonlySet<string> = new Set([
  ...['minLength', 'maxLength', 'pattern', 'format'],
  ...['minimum', 'maximum', 'minItems', 'maxItems', 'required', 'minProperties'],
])

function bounds(schema: Schema): StructuralSchema {
  return {
    ...Object.fromEntries(Object.entries(schema).filter(([keyword]) => sameKeywords.has(keyword))),
    ...('enum' in schema && oneOf(schema.enum, schema.nullable === true)),
    ...('const' in schema && { enum: [schema.const] }),
    ...('uniqueItems' in schema && { 'x-kubernetes-list-type': 'set' }),
    ...('dependentRequired' in schema && { allOf: dependencies(schema) }),
  }
}

/** An API server accepts null for an enum only if the enum lists null, and an enum of strings cannot. */
function oneOf(values: readonly string[], isNullable: boolean): StructuralSchema {
  return isNullable ? { pattern: `^(${values.join('|')})$` } : { enum: values }
}

function dependencies({ dependentRequired = {} }: ObjectSchema): readonly StructuralSchema[] {
  return Object.entries(dependentRequired).map(([name, others]) => ({
    anyOf: [{ not: { required: [name] } }, { required: others }],
  }))
}

const preserved = { 'x-kubernetes-preserve-unknown-fields': true } as const

function parts(schema: Schema, write: (part: Schema) => StructuralSchema): StructuralSchema {
  if ('items' in schema) return { items: write(schema.items) }
  if ('additionalProperties' in schema) return values(schema, write)
  if (!('properties' in schema)) return {}
  return { ...(schema.unknownFields === 'keep' && preserved), properties: eachOf(schema.properties, write) }
}

/**
 * A value that may have two types has no structural schema. If its type is wrong, hosts report that in the condition
 * Invalid.
 */
function values({ additionalProperties }: MapSchema, write: (part: Schema) => StructuralSchema): StructuralSchema {
  return typeof additionalProperties.type === 'string'
    ? { additionalProperties: write(additionalProperties) }
    : preserved
}
