/** The examples of the OpenAPI document. A test compares them with the answers of a service. */
import { splitQueryString } from '../../lib/query-string.ts'
import { SECOND_MS } from '../../lib/time.ts'
import type { Proxy } from '../../proxies/proxy.ts'
import { toRow } from '../../proxies/row.ts'
import { typeBits } from '../../proxies/types.ts'
import { bodyOf, createAnswerRenderer } from '../answer.ts'
import { ApiError, errorBody } from '../errors.ts'
import { createParamsParser } from '../query.ts'
import type { Output } from '../render.ts'

/** The time of the examples: 2026-11-20T12:00:00Z. Proxies were checked a minute before. */
const EXAMPLE_MS = 1_795_176_000_000

/** The list of the examples, in the order of an answer. */
export const EXAMPLE_PROXIES: readonly Proxy[] = [
  {
    ...{
      ip: '203.0.113.10',
      port: 1080,
      types: typeBits(['socks5']),
      anon: 'elite',
      ipOut: '203.0.113.10',
    },
    ...{ checkedAt: EXAMPLE_MS / SECOND_MS - 60, pingMs: 210, speed: 512_000, works: 98 },
    ...{ country: 'DE', city: 'Берлин', cityEn: 'Berlin' },
    services: new Set(['telegram', 'google']),
  },
  {
    ...{ ip: '198.51.100.11', port: 3128, types: typeBits(['http']), anon: 'anonymous', ipOut: '' },
    ...{ checkedAt: EXAMPLE_MS / SECOND_MS - 60, pingMs: 350, speed: 240_000, works: 91 },
    ...{ country: 'FR', city: 'Париж', cityEn: 'Paris' },
    services: new Set(['avito', 'provider']),
  },
]
const ROWS = EXAMPLE_PROXIES.map((proxy, i) => toRow(proxy, i))
const cityNames = (id: number) => {
  const { city = '', cityEn = '' } = EXAMPLE_PROXIES[id] ?? {}
  return { name: city, nameEn: cityEn }
}

/** Query strings of /api. All proxies pass their filters. */
const QUERIES = [
  'country=de,fr',
  'works=90&type_prefix=1',
  'get=json&count=1',
  'get=json&split_ip=1&fields=ip,port,country',
  'get=json&format=object&fields=type,ping',
  'get=json&wrap=1&fields=ip&count=1&ping=700',
  'get=csv',
  'get=ndjson&fields=ip,ping,country',
]

type Examples = { [query: string]: { value: unknown } }

/** The answers of /api by form and query string. */
export function answerExamples(provider: string) {
  const parse = createParamsParser(provider)
  const render = createAnswerRenderer(provider)
  const examples: { [form in Output['kind']]: Examples } = {
    txt: {},
    json: {},
    csv: {},
    ndjson: {},
  }
  for (const query of QUERIES) {
    const { filter, output } = parse(splitQueryString(query))
    const found = { rows: ROWS.slice(0, filter.count ?? ROWS.length), cityNames, areKept: false }
    const { answer } = render({ filter, output, addressBits: 32 }, found)
    const text = Buffer.from(bodyOf(answer, EXAMPLE_MS)).toString()
    examples[output.kind][query] = { value: output.kind === 'json' ? JSON.parse(text) : text }
  }
  return examples
}

/** A key of plan standard that has just sent two requests. */
export const KEY_EXAMPLE = {
  ...{ id: 'wsu5jcyw', label: 'first customer', plan: 'standard', state: 'active', expires: null },
  limits: [
    { name: 'burst', quota: 5, window: 5, left: 3, reset: 5 },
    { name: 'daily', quota: 34_560, window: 86_400, left: 34_558, reset: 43_200 },
  ],
  today: {
    ...{ requests: 2, records: 4, refused: 0 },
    hours: Array.from({ length: 24 }, (_, hour) => (hour === 12 ? 2 : 0)),
  },
}

const TOO_MANY = new ApiError('RATE_LIMIT_EXCEEDED', 'too many requests; retry after 5 s', {
  retryAfterSeconds: 5,
})
export const errorExample = (form: 'json' | 'text'): unknown =>
  form === 'json' ? JSON.parse(errorBody(TOO_MANY, EXAMPLE_MS)) : `Error: ${TOO_MANY.message}`
