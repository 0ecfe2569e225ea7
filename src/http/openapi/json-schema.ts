/** Converts the schemas in `rules/validation` to the JSON Schema of OpenAPI 3.1. Each schema with an id becomes a component. */
import { FleetError } from '../../contracts/errors.js'
import type { ObjectSchema, Schema, StringSchema } from '../../rules/validation/schema.js'

/** Schema for a request or response body. */
export type BodySchema = Schema | AnyOfSchema

export interface AnyOfSchema {
  readonly id: string
  readonly anyOf: readonly BodySchema[]
}

export interface SchemaReference {
  readonly $ref: string
}

type JsonSchema = Readonly<Record<string, unknown>>

/** Collects the schema components that one document refers to, directly or indirectly. */
export class SchemaComponents {
  readonly #schemas = new Map<string, JsonSchema>()

  /** Returns a reference to a schema that has an id. */
  refTo(schema: BodySchema): SchemaReference {
    const { id } = schema
    if (id === undefined) throw new FleetError('internal', 'a schema of the OpenAPI document has no id')
    if (!this.#schemas.has(id)) this.#schemas.set(id, this.#write(schema))
    return { $ref: `#/components/schemas/${id}` }
  }

  /** Sorted by name. */
  all(): Readonly<Record<string, JsonSchema>> {
    return Object.fromEntries([...this.#schemas].toSorted(([a], [b]) => (a < b ? -1 : 1)))
  }

  #nested(schema: BodySchema): JsonSchema | SchemaReference {
    return schema.id === undefined ? this.#write(schema) : this.refTo(schema)
  }

  #write(schema: BodySchema): JsonSchema {
    if ('anyOf' in schema) return { anyOf: schema.anyOf.map((part) => this.#nested(part)) }
    return {
      type: schema.nullable ? [schema.type, 'null'].flat() : schema.type,
      ...Object.fromEntries(Object.entries(schema).filter(([keyword]) => sameKeywords.has(keyword))),
      ...(schema.type === 'string' && stringKeywords(schema)),
      ...(schema.type === 'integer' && { maximum: schema.maximum ?? Number.MAX_SAFE_INTEGER }),
      ...('enum' in schema && { enum: schema.nullable ? [...schema.enum, null] : schema.enum }),
      ...('items' in schema && { items: this.#nested(schema.items) }),
      ...('properties' in schema && {
        properties: Object.fromEntries(
          Object.entries(schema.properties).map(([name, part]) => [name, this.#nested(part)]),
        ),
        ...('alternatives' in schema && { oneOf: alternativesOf(schema) }),
        ...(schema.unknownFields && { additionalProperties: schema.unknownFields !== 'refuse' }),
      }),
      ...('additionalProperties' in schema && { additionalProperties: this.#nested(schema.additionalProperties) }),
      ...('keys' in schema && schema.keys && { propertyNames: this.#nested(schema.keys) }),
    }
  }
}

function alternativesOf({ alternatives = [] }: ObjectSchema): readonly JsonSchema[] {
  return alternatives.map((group) => {
    const others = alternatives.filter((other) => other !== group).flat()
    return { required: group, not: { anyOf: others.map((name) => ({ required: [name] })) } }
  })
}

/** Sizes in bytes and control characters, as far as JSON Schema can express them: a text has no more characters than bytes. */
function stringKeywords({ controls, maxBytes, maxLength = maxBytes, pattern }: StringSchema): JsonSchema {
  return {
    ...(maxLength !== undefined && { maxLength }),
    ...(controls !== undefined && pattern === undefined && { pattern: patternsWithout[controls] }),
  }
}

const patternsWithout = {
  none: '^[^\\x00-\\x1f\\x7f]*$',
  whitespace: '^[^\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f]*$',
  visible:
    '^(?!\\.{1,2}$)[^\\p{Cc}\\p{Cf}\\p{Cs}\\p{Z}](( |[^\\p{Cc}\\p{Cf}\\p{Cs}\\p{Z}])*[^\\p{Cc}\\p{Cf}\\p{Cs}\\p{Z}])?$',
} as const

/** Keywords that mean the same in JSON Schema and whose values contain no schemas. */
const sameKeywords: ReadonlySet<string> = new Set([
  ...['description', 'default', 'examples', 'const'],
  ...['minLength', 'maxLength', 'pattern', 'format'],
  ...['minimum', 'maximum'],
  ...['minItems', 'maxItems', 'uniqueItems'],
  ...['required', 'minProperties', 'dependentRequired'],
])
