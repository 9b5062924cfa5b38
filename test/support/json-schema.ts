/**
 * JSON Schema (2020-12) as far as the OpenAPI document of the service uses it: whether a value
 * is allowed, and values that are. A keyword that it does not know fails, so that none is skipped.
 */
import fc from 'fast-check'
import type { Schema } from '../../src/api/openapi/schemas.ts'

type Schemas = { readonly [name: string]: Schema }
type Check = (value: unknown, limit: never, schema: Schema, schemas: Schemas) => boolean

const typeOf = (value: unknown): string => {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'array'
  return Number.isInteger(value) ? 'integer' : typeof value
}
const isType = (value: unknown, type: string): boolean =>
  typeOf(value) === type || (type === 'number' && typeof value === 'number')
const isObject = (value: unknown): value is { [name: string]: unknown } =>
  typeOf(value) === 'object'
const same = (one: unknown, two: unknown): boolean => JSON.stringify(one) === JSON.stringify(two)
const list = (value: unknown): unknown[] => (Array.isArray(value) ? value : [])

/** What each keyword allows; one that is for another type of value allows it. */
const CHECKS: { readonly [keyword: string]: Check } = {
  type: (value, types: string | string[]) => [types].flat().some(type => isType(value, type)),
  enum: (value, values: unknown[]) => values.some(each => same(each, value)),
  const: (value, only: unknown) => same(value, only),
  pattern: (value, pattern: string) =>
    typeof value !== 'string' || new RegExp(pattern, 'u').test(value),
  maxLength: (value, most: number) => typeof value !== 'string' || value.length <= most,
  format: (value, format: string) =>
    format !== 'date-time' ||
    typeof value !== 'string' ||
    /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/.test(value),
  minimum: (value, least: number) => typeof value !== 'number' || value >= least,
  maximum: (value, most: number) => typeof value !== 'number' || value <= most,
  items: (value, items: Schema, _, schemas) =>
    list(value).every(each => allows(items, each, schemas)),
  required: (value, names: string[]) =>
    !isObject(value) || names.every(name => Object.hasOwn(value, name)),
  properties: (value, properties: Schemas, _, schemas) =>
    !isObject(value) ||
    Object.entries(value).every(([name, each]) => allows(properties[name] ?? {}, each, schemas)),
  propertyNames: (value, names: Schema, _, schemas) =>
    !isObject(value) || Object.keys(value).every(name => allows(names, name, schemas)),
  additionalProperties: (value, others: Schema | false, { properties = {} }, schemas) =>
    !isObject(value) ||
    Object.entries(value)
      .filter(([name]) => !Object.hasOwn(properties, name))
      .every(([, each]) => others !== false && allows(others, each, schemas)),
  oneOf: (value, all: Schema[], _, schemas) =>
    all.filter(schema => allows(schema, value, schemas)).length === 1,
  allOf: (value, all: Schema[], _, schemas) => all.every(schema => allows(schema, value, schemas)),
  $ref: (value, ref: string, _, schemas) =>
    allows(schemas[ref.replace('#/components/schemas/', '')] ?? { enum: [] }, value, schemas),
  ...{ description: () => true, default: () => true, examples: () => true },
  ...{ 'x-enumDescriptions': () => true, 'x-enumStatuses': () => true },
}

/** Whether a schema allows a value. @throws Error for a keyword that is not in `CHECKS`. */
export function allows(schema: Schema, value: unknown, schemas: Schemas = {}): boolean {
  return Object.entries(schema).every(([keyword, limit]) => {
    const check = CHECKS[keyword]
    if (check === undefined) throw new Error(`the keyword ${keyword} is not known here`)
    return check(value, limit as never, schema, schemas) // each knows what its keyword holds
  })
}

/** Any value that the schema of a parameter allows. */
export function valueOf(schema: Schema): fc.Arbitrary<unknown> {
  const { type, minimum, maximum, items } = schema
  if (schema.enum !== undefined) return fc.constantFrom(...schema.enum)
  if (minimum !== undefined && maximum !== undefined) {
    return fc
      .oneof(
        fc.integer({ min: 0, max: 200 }),
        fc.maxSafeInteger(),
        fc.constantFrom(minimum, maximum),
      )
      .filter(value => allows(schema, value))
  }
  if (type === 'array') {
    return fc.array(valueOf(items ?? {}), { maxLength: 6 }).filter(value => allows(schema, value))
  }
  return fc
    .stringMatching(new RegExp(String(schema.pattern), 'u'))
    .filter(value => allows(schema, value))
}
