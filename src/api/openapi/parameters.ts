/** Owns the parameters of /api in the OpenAPI document, made from the table that validates them. */
import { DEFAULT_AGE_MAX_SECONDS } from '../../proxies/filter.ts'
import { type Described, describeParameters } from '../query.ts'
import { OUTPUT_KINDS } from '../render.ts'
import type { Parameter, Schema } from './schema.ts'
import { PARAMETER_TEXTS, type Text } from './texts/parameters.ts'

export type Say = (text: Text) => string

/** What is the same as leaving a parameter out. */
const DEFAULTS: { readonly [name: string]: unknown } = {
  time: DEFAULT_AGE_MAX_SECONDS,
  ...{ country_mode: 'include', cm: 'include', sort: 'checked', lang: 'ru', get: 'txt' },
  ...{ type_prefix: '0', split_ip: '0', format: 'array', wrap: '0', pretty: '1' },
}

const EXAMPLES: { readonly [name in keyof typeof PARAMETER_TEXTS]: unknown } = {
  ...{ type: ['http', 'socks5'], anon: ['elite'], ping: 700, speed: 100_000, time: 600, works: 90 },
  ...{ country: ['de', 'nl'], country_mode: 'include', cm: 'except', city: ['Berlin', 'Париж'] },
  ...{ port: 1080, ip: '203.0.113.10:1080', service: ['telegram', 'google'], sort: 'ping' },
  ...{ count: 10, lang: 'en', get: 'json', type_prefix: '1', fields: ['ip', 'ping', 'country'] },
  ...{ split_ip: '1', format: 'object', wrap: '1', pretty: '0' },
}

/** A member of a record that shows nothing by itself: alone, `fields` of it is refused. */
const NEEDS_ANOTHER = 'port'

const textOf = ({ values, pattern, item }: Described, isItem: boolean): Schema => {
  if (values !== undefined) return { type: 'string', enum: values }
  return { type: 'string', pattern: isItem && item !== undefined ? `^${item}$` : (pattern ?? '') }
}

/** The schema of a parameter: it allows nothing that is refused. */
function schemaOf(parameter: Described): Schema {
  const { name, list, min, max, values } = parameter
  const byDefault = name in DEFAULTS ? { default: DEFAULTS[name] } : {}
  if (min !== undefined && max !== undefined) {
    return { type: 'integer', format: 'int64', minimum: min, maximum: max, ...byDefault }
  }
  if (!list) return { ...textOf(parameter, false), ...byDefault }
  const items = textOf(parameter, true)
  if (!values?.includes(NEEDS_ANOTHER)) return { type: 'array', items }
  return { type: 'array', items, uniqueItems: true, not: { const: [NEEDS_ANOTHER] } }
}

/** The parameters of /api, in the order of the table, for one name of the provider's service. */
export function parameters(provider: string, say: Say): Parameter[] {
  return describeParameters(provider).map(parameter => {
    const { name, list, forms } = parameter
    const known = name as keyof typeof PARAMETER_TEXTS // a test holds that all are there
    return {
      name,
      in: 'query',
      required: false,
      description: say(PARAMETER_TEXTS[known]),
      ...(list && { style: 'form', explode: false }),
      schema: schemaOf(parameter),
      example: EXAMPLES[known],
      ...(forms.length < OUTPUT_KINDS.length && { 'x-forms': forms }),
    }
  })
}
