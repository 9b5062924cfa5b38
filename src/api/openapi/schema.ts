/** The types of an OpenAPI 3.1 document, as far as ours needs them, and what all its parts use. */
import type { Text } from '../../proxies/proxy.ts'

/** Chooses the language of a text. */
export type Say = (text: Text) => string

/** A JSON Schema (draft 2020-12). */
export type Schema = {
  readonly $ref?: string
  readonly type?: string | readonly string[]
  readonly title?: string
  readonly description?: string
  readonly enum?: readonly (string | number | null)[]
  readonly const?: unknown
  readonly pattern?: string
  readonly format?: string
  readonly minimum?: number
  readonly maximum?: number
  readonly minLength?: number
  readonly minItems?: number
  readonly maxItems?: number
  readonly uniqueItems?: boolean
  readonly items?: Schema
  readonly not?: Schema
  readonly default?: unknown
  readonly properties?: { readonly [name: string]: Schema }
  readonly required?: readonly string[]
  readonly propertyNames?: Schema
  readonly additionalProperties?: Schema | boolean
  readonly oneOf?: readonly Schema[]
  readonly allOf?: readonly Schema[]
  /** What each value of `enum` means. */
  readonly 'x-enumDescriptions'?: { readonly [value: string]: string }
  /** The HTTP status of each value of `enum`. */
  readonly 'x-enumStatuses'?: { readonly [value: string]: number }
}

export type Parameter = {
  readonly name: string
  readonly in: 'query'
  readonly required: false
  readonly description: string
  readonly style?: 'form'
  readonly explode?: false
  readonly schema: Schema
  readonly example: unknown
  /** The forms of `get` that it applies to; all of them when it is left out. */
  readonly 'x-forms'?: readonly string[]
}

/** `summary`: the query string that gets it, or the code of the error that it is. */
export type Example = { readonly summary: string; readonly value: unknown }
export type Header = { readonly $ref: string } | { description: string; schema: Schema }
export type Response = {
  readonly description: string
  readonly headers?: { readonly [name: string]: Header }
  readonly content?: {
    readonly [type: string]: {
      readonly schema: Schema
      readonly examples?: { readonly [name: string]: Example }
    }
  }
}

export type Operation = {
  readonly operationId: string
  readonly tags: readonly string[]
  readonly summary: string
  readonly description: string
  readonly security: readonly { readonly [scheme: string]: readonly string[] }[]
  readonly parameters?: readonly Parameter[]
  readonly responses: { readonly [status: string]: Response }
}

export type Document = {
  readonly openapi: string
  readonly info: {
    readonly title: string
    readonly version: string
    readonly summary: string
    readonly description: string
    readonly license: { readonly name: string; readonly identifier: string }
  }
  readonly servers: readonly { readonly url: string }[]
  readonly tags: readonly { readonly name: string; readonly description: string }[]
  readonly paths: { readonly [path: string]: { readonly get: Operation } }
  readonly components: {
    readonly securitySchemes: { readonly [name: string]: object }
    readonly headers: { readonly [name: string]: { description: string; schema: Schema } }
    readonly schemas: { readonly [name: string]: Schema }
  }
}

export const refTo = (name: string): Schema => ({ $ref: `#/components/schemas/${name}` })
