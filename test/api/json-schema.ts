/** The schemas of the OpenAPI document: whether they allow a value, and values that they allow. */
import Ajv2020 from 'ajv/dist/2020.js'
import fc from 'fast-check'
import type { Schema } from '../../src/api/openapi/schemas.ts'

type Schemas = { readonly [name: string]: Schema }

/** A keyword that is not known throws. */
const ajv = new Ajv2020({
  ...{ strict: true, strictTypes: false, strictTuples: false },
  keywords: ['x-enumDescriptions', 'x-enumStatuses', 'components'],
  formats: {
    int64: true,
    'date-time': /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/,
  },
})
const compiled = new WeakMap<Schema, (value: unknown) => boolean>()

/** Whether a schema of a document with these schemas allows a value. */
export function allows(schema: Schema, value: unknown, schemas: Schemas = {}): boolean {
  const known = compiled.get(schema)
  if (known) return known(value)
  const validate = ajv.compile({ ...schema, components: { schemas } })
  compiled.set(schema, validate)
  return validate(value)
}

/** Any value that the schema of a parameter allows. */
export function valueOf(schema: Schema): fc.Arbitrary<unknown> {
  const { type, minimum, maximum, items } = schema
  if (schema.enum !== undefined) return fc.constantFrom(...schema.enum)
  if (minimum !== undefined && maximum !== undefined) {
    const some = fc.oneof(fc.integer({ min: 0, max: 200 }), fc.maxSafeInteger())
    const any = fc.oneof(some, fc.constantFrom(minimum, maximum))
    return any.filter(value => allows(schema, value))
  }
  if (type === 'array') {
    return fc.array(valueOf(items ?? {}), { maxLength: 6 }).filter(value => allows(schema, value))
  }
  return fc
    .stringMatching(new RegExp(String(schema.pattern), 'u'))
    .filter(value => allows(schema, value))
}
