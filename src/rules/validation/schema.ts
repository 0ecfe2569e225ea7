/**
 * The schema language used in this folder: a subset of JSON Schema, plus `expected`, `nullable`, `mayBeEmpty`,
 * `unknownFields`, sizes in bytes and control characters. Requests are validated against these schemas, and the OpenAPI
 * document and the custom resource definitions are generated from them.
 *
 * The custom resource definitions omit sizes in bytes and control characters: before version 1.30, Kubernetes rejects every
 * update of an object that breaks its schema, even one that only changes the status. A build that was stored before a limit
 * existed could then neither be reported as Invalid nor updated.
 */
export type Schema =
  StringSchema | NumberSchema | QuantitySchema | BooleanSchema | ArraySchema | ObjectSchema | MapSchema

interface Annotations {
  /** Name of the component in the OpenAPI document. A schema without an id is inlined wherever it is used. */
  readonly id?: string
  readonly description?: string
  readonly examples?: readonly unknown[]
  readonly default?: unknown
  /** What the value must be, for error messages. Default: derived from the type and its bounds. */
  readonly expected?: string
  /** Treats `null` as absent, like Kubernetes. */
  readonly nullable?: true
}

export interface StringSchema extends Annotations {
  readonly type: 'string'
  readonly minLength?: number
  readonly maxLength?: number
  /** Must mean the same in ECMAScript and in RE2, which Kubernetes API servers use. */
  readonly pattern?: string
  readonly format?: 'date-time'
  readonly enum?: readonly string[]
  readonly const?: string
  /** Makes the string nullable in a custom resource definition, because some API servers store an empty string as null. */
  readonly mayBeEmpty?: true
  /** Maximum size in UTF-8. */
  readonly maxBytes?: number
  /**
   * Which control characters (U+0000 to U+001F and U+007F) the string may contain. `none`, or `whitespace`: tabs and line
   * breaks. `visible`: none, and nothing else that cannot be seen, except spaces between other characters: no format
   * characters, other white space or lone surrogates. It must not be `.` or `..` either, because the path of a URL cannot
   * contain these. Default: all.
   */
  readonly controls?: 'none' | 'whitespace' | 'visible'
}

export interface NumberSchema extends Annotations {
  /** The maximum of an `integer` defaults to `Number.MAX_SAFE_INTEGER`. */
  readonly type: 'integer' | 'number'
  readonly minimum?: number
  readonly maximum?: number
}

/** A string that matches the pattern, or a number within the bounds. */
export interface QuantitySchema extends Annotations {
  readonly type: readonly ['string', 'number']
  readonly pattern: string
  readonly minimum: number
}

interface BooleanSchema extends Annotations {
  readonly type: 'boolean'
}

export interface ArraySchema extends Annotations {
  readonly type: 'array'
  readonly items: Schema
  readonly minItems?: number
  readonly maxItems?: number
  readonly uniqueItems?: true
  /** Maximum size in UTF-8 of all items together, if they are strings. */
  readonly maxTotalBytes?: number
}

export interface ObjectSchema extends Annotations {
  readonly type: 'object'
  readonly properties: { readonly [name: string]: Schema }
  readonly required?: readonly string[]
  readonly minProperties?: 1
  /** For each field, the other fields that must be set if it is set. */
  readonly dependentRequired?: Readonly<Record<string, readonly string[]>>
  /** Groups of fields. Exactly one group must be set, and all of its fields. */
  readonly alternatives?: readonly (readonly string[])[]
  /**
   * What happens to fields that are not in `properties`. Absent in response schemas, because responses contain no other
   * fields.
   */
  readonly unknownFields?: 'refuse' | 'ignore' | 'keep'
}

/** An object with arbitrary keys, whose values all have the same schema. */
export interface MapSchema extends Annotations {
  readonly type: 'object'
  readonly additionalProperties: Schema
  readonly keys?: StringSchema
  /** Maximum size in UTF-8 of all keys and values together, if the values are strings. */
  readonly maxTotalBytes?: number
}

/** The type of the values that a schema describes. */
export type FromSchema<S> = S extends { readonly nullable: true } ? NonNull<S> | null : NonNull<S>

type NonNull<S> = S extends { readonly const: infer C }
  ? C
  : S extends { readonly enum: readonly (infer E)[] }
    ? E
    : S extends { readonly type: readonly unknown[] }
      ? string | number
      : S extends { readonly type: 'string' }
        ? string
        : S extends { readonly type: 'integer' | 'number' }
          ? number
          : S extends { readonly type: 'boolean' }
            ? boolean
            : S extends { readonly items: infer I }
              ? readonly FromSchema<I>[]
              : S extends { readonly unknownFields: 'keep' }
                ? Readonly<Record<string, unknown>>
                : S extends { readonly properties: infer P }
                  ? FromProperties<P, S extends { readonly required: readonly (infer R)[] } ? R : never>
                  : S extends { readonly additionalProperties: infer V }
                    ? Readonly<Record<string, FromSchema<V>>>
                    : never

/** The type of each field in an object schema. Fields that are not required may be undefined. */
export type FieldsOf<S> = S extends { readonly properties: infer P; readonly required: readonly (infer R)[] }
  ? { readonly [K in keyof P]: K extends R ? FromSchema<P[K]> : FromSchema<P[K]> | undefined }
  : never

type FromProperties<P, Required> = Flat<
  { readonly [K in keyof P as K extends Required ? K : never]: FromSchema<P[K]> } & {
    readonly [K in keyof P as K extends Required ? never : K]?: FromSchema<P[K]>
  }
>

type Flat<T> = { [K in keyof T]: T[K] }
