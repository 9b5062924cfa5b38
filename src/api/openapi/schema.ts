/** The types of an OpenAPI 3.1 document, as far as ours needs them, and what all its parts use. */
import type { Text } from '../../proxies/proxy.ts'

/** A text as `English | Russian`. */
export type Both = `${string} | ${string}`
/** Chooses the language of a text. */
export type Say = (text: Text | Both) => string

type Named<T> = { readonly [name: string]: T }

/** A JSON Schema (draft 2020-12). */
export type Schema = Readonly<{
  $ref?: string
  type?: string | readonly string[]
  description?: string
  enum?: readonly (string | number | null)[]
  const?: unknown
  pattern?: string
  format?: string
  minimum?: number
  maximum?: number
  minItems?: number
  maxItems?: number
  uniqueItems?: boolean
  items?: Schema
  not?: Schema
  default?: unknown
  properties?: Named<Schema>
  required?: readonly string[]
  propertyNames?: Schema
  additionalProperties?: Schema | boolean
  oneOf?: readonly Schema[]
  allOf?: readonly Schema[]
  /** What each value of `enum` means, and its HTTP status. */
  'x-enumDescriptions'?: Named<string>
  'x-enumStatuses'?: Named<number>
}>

export type Parameter = Readonly<{
  name: string
  in: 'query'
  required: false
  description: string
  style?: 'form'
  explode?: false
  schema: Schema
  example: unknown
  /** The forms of `get` that it applies to; all of them when it is left out. */
  'x-forms'?: readonly string[]
}>

/** `summary`: the query string that gets it, or the code of the error that it is. */
export type Example = Readonly<{ summary: string; value: unknown }>
type Header = { description: string; schema: Schema }
export type Response = Readonly<{
  description: string
  headers?: Named<{ $ref: string }>
  content?: Named<{ schema: Schema; examples?: Named<Example> }>
}>

export type Operation = Readonly<{
  operationId: string
  tags: readonly string[]
  summary: string
  description: string
  security: readonly Named<readonly string[]>[]
  parameters?: readonly Parameter[]
  responses: Named<Response>
}>

export type Document = Readonly<{
  openapi: string
  info: Named<unknown> & { title: string; version: string; summary: string; description: string }
  servers: readonly { url: string }[]
  tags: readonly { name: string; description: string }[]
  paths: Named<{ get: Operation }>
  components: {
    securitySchemes: Named<object>
    headers: Named<Header>
    schemas: Named<Schema>
  }
}>

export const refTo = (name: string): Schema => ({ $ref: `#/components/schemas/${name}` })
