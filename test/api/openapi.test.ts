/**
 * The OpenAPI document (contract F5): valid, complete, and no laxer than what
 * validates. That its examples are true is held by `test/http/reference.test.ts`.
 */
import { describe, expect, test } from 'bun:test'
import { validate } from '@readme/openapi-parser'
import fc from 'fast-check'
import { STATUS } from '../../src/api/errors.ts'
import {
  createDocument,
  type DocumentOptions,
  type Operation,
  type Parameter,
} from '../../src/api/openapi/document.ts'
import { createParamsParser, describeParameters } from '../../src/api/query.ts'
import { memberNames } from '../../src/api/render.ts'
import { splitQueryString } from '../../src/lib/query-string.ts'
import { allows, valueOf } from './json-schema.ts'
import { unlessRefused } from './thrown.ts'

const PROVIDER = 'the service'
const OPTIONS: DocumentOptions = {
  ...{ version: '1.2.3', provider: PROVIDER, errors: 'json', stats: 'full', lang: 'en' },
}
const DOCUMENT = createDocument(OPTIONS)
const VARIANTS: readonly (readonly [what: string, options: Partial<DocumentOptions>])[] = [
  ['with default options', {}],
  ['in Russian', { lang: 'ru' }],
  ['with --errors text', { errors: 'text' }],
  ['with --public-stats totals', { stats: 'totals' }],
  ['with --public-stats off', { stats: 'off' }],
  ['with another name of the provider’s service', { provider: 'моя почта 2.0' }],
]
const get = (path: string): Operation => {
  const operation = DOCUMENT.paths[path]?.get
  if (operation === undefined) throw new Error(`${path} is not in the document`)
  return operation
}
const PARAMETERS_OF_API = get('/api').parameters ?? []
const copyOf = (options: Partial<DocumentOptions>) =>
  structuredClone(createDocument({ ...OPTIONS, ...options }))

describe.each(VARIANTS)('the document %s', (_, options) => {
  test('is valid, and no member is undefined', async () => {
    const result = await validate(copyOf(options) as never) // its types lack 3.1's arrays of types
    expect(result).toMatchObject({ valid: true, warnings: [] })
    const document = createDocument({ ...OPTIONS, ...options })
    expect(JSON.parse(JSON.stringify(document))).toStrictEqual(document as never)
  })
  test('has examples that its schemas allow', () => {
    const { paths, components } = createDocument({ ...OPTIONS, ...options })
    const { schemas } = components
    for (const schema of Object.values(schemas)) {
      for (const example of schema.examples ?? []) {
        expect([example, allows(schema, example, schemas)]).toEqual([example, true])
      }
    }
    for (const { schema, examples = {} } of Object.values(
      paths['/api']?.get.responses[200]?.content ?? {},
    )) {
      expect(examples).not.toBeEmpty()
      for (const { value } of Object.values(examples)) {
        expect([value, allows(schema, value, schemas)]).toEqual([value, true])
      }
    }
  })
})

describe('the document', () => {
  test('has every parameter, in the order of the table, with a description and an example', () => {
    expect(PARAMETERS_OF_API.map(({ name }) => name)).toEqual(
      describeParameters(PROVIDER).map(({ name }) => name),
    )
    for (const { name, example, schema } of PARAMETERS_OF_API) {
      expect([name, allows(schema, example)]).toEqual([name, true])
    }
  })

  test.each(['the service', 'acme mail'])('has each member of a record, with %s', provider => {
    const { Proxy: record } = createDocument({ ...OPTIONS, provider }).components.schemas
    expect(Object.keys(record?.properties ?? {})).toEqual(memberNames(provider))
    for (const { description } of Object.values(record?.properties ?? {})) {
      expect(description).not.toBeEmpty()
    }
  })

  test('has every error code, with its status, meaning and routes', () => {
    const { ErrorCode: code } = DOCUMENT.components.schemas
    expect(code?.enum).toEqual(Object.keys(STATUS))
    const { responses } = get('/api')
    for (const [name, status] of Object.entries(STATUS)) {
      expect(code?.['x-enumDescriptions']?.[name]).not.toBeEmpty()
      if (name !== 'NOT_FOUND') expect(JSON.stringify(responses[status])).toContain(`"${name}"`)
    }
  })

  test('has /stats unless it is off; totals have neither facets nor filters', () => {
    const statsOf = (stats: DocumentOptions['stats']) => createDocument({ ...OPTIONS, stats })
    const members = (stats: DocumentOptions['stats']) =>
      Object.keys(statsOf(stats).components.schemas.Stats?.properties ?? {})
    const filters = (stats: DocumentOptions['stats']) =>
      (statsOf(stats).paths['/stats']?.get.parameters ?? []).map(({ name }) => name)
    expect(members('full')).toContain('facets')
    expect(members('totals')).toEqual(['at', 'version', 'total', 'matching'])
    const ofFilters = 'type anon ping speed time works country country_mode cm city service lang'
    expect(filters('full')).toEqual(ofFilters.split(' '))
    expect(filters('totals')).toEqual([])
    expect(JSON.stringify(statsOf('off'))).not.toContain('/stats')
    expect(statsOf('off').components.schemas).not.toHaveProperty('Stats')
  })

  test('declares a key in the header only', () => {
    expect(DOCUMENT.components.securitySchemes).toEqual({
      bearer: { type: 'http', scheme: 'bearer' },
    })
    expect(PARAMETERS_OF_API.map(({ name }) => name)).not.toContain('key')
    const needy = Object.entries(DOCUMENT.paths).filter(([, path]) => path.get.security.length > 0)
    expect(needy.map(([path]) => path)).toEqual(['/api', '/key'])
  })

  test('has text error bodies with --errors text', () => {
    const { paths } = createDocument({ ...OPTIONS, errors: 'text' })
    for (const [status, { content }] of Object.entries(paths['/api']?.get.responses ?? {})) {
      if (Number(status) >= 400) expect(Object.keys(content ?? {})).toEqual(['text/plain'])
    }
  })
})

const parse = createParamsParser(PROVIDER)
/** Whether the service accepts parameters; each value is as a query string has it, encoded. */
const accepts = (query: string): boolean =>
  unlessRefused(() => parse(splitQueryString(query))) !== null
/** A value as a generated client writes it: style form, not exploded. */
const encode = (value: unknown): string =>
  [value]
    .flat()
    .map(each => encodeURIComponent(String(each)))
    .join(',')

/** The forms of `get` in which a parameter is not ignored, as a part of a query. */
const formOf = ({ name, 'x-forms': forms }: Parameter): string =>
  name === 'get' || forms === undefined ? '' : `&get=${forms[0]}`

/** `fields=port` alone is refused because of another parameter. */
const needsSplitIp = (text: string): boolean => /^port(?:,port)*$/.test(text)

describe('the schema of a parameter', () => {
  test.each(PARAMETERS_OF_API.map(parameter => [parameter.name, parameter] as const))(
    'allows only accepted values: %s',
    (name, parameter) => {
      fc.assert(
        fc.property(valueOf(parameter.schema), value => {
          fc.pre(!needsSplitIp(String(value)))
          expect([name, value, accepts(`${name}=${encode(value)}${formOf(parameter)}`)]).toEqual([
            ...[name, value, true],
          ])
        }),
        { numRuns: 500 },
      )
    },
  )

  /** A value that a client could send by mistake, near one that is allowed. */
  const nearly = (parameter: Parameter) =>
    fc
      .tuple(
        valueOf(parameter.schema).map(value => [value].flat().join(',')),
        fc.constantFrom('', '0', '-', ' ', '.', '9', ':', 'x', ',', '\n', '999999', 'İ', '%'),
        fc.nat(30),
        fc.boolean(),
      )
      .map(
        ([text, added, at, isCut]) => text.slice(0, at) + added + text.slice(isCut ? at + 1 : at),
      )

  /** What a text of a query string is to a schema. */
  function typed({ schema }: Parameter, text: string): unknown {
    if (schema.type === 'array') return text.split(',')
    return schema.type === 'integer' && /^(?:0|-?[1-9]\d*)$/.test(text) ? Number(text) : text
  }

  test.each(PARAMETERS_OF_API.map(parameter => [parameter.name, parameter] as const))(
    'excludes every refused value: %s',
    (name, parameter) => {
      let refused = 0
      fc.assert(
        fc.property(nearly(parameter), text => {
          if (accepts(`${name}=${encodeURIComponent(text)}${formOf(parameter)}`)) return
          if (needsSplitIp(text)) return
          refused += 1
          expect([name, text, allows(parameter.schema, typed(parameter, text))]).toEqual([
            ...[name, text, false],
          ])
        }),
        { numRuns: 1000 },
      )
      expect(refused).toBeGreaterThan(0)
    },
  )

  test('has a default that equals leaving the parameter out', () => {
    for (const parameter of PARAMETERS_OF_API) {
      const { name, schema } = parameter
      if (schema.default === undefined || name === 'sort') continue
      const form = formOf(parameter)
      const read = (query: string) => parse(splitQueryString(query))
      expect([name, read(`${name}=${encode(schema.default)}${form}`)]).toEqual([
        ...([name, read(form)] as const),
      ])
    }
  })
})
