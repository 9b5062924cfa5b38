/** Query strings at random: parameters with good and bad values, and text of any kind. */
import fc from 'fast-check'
import { describeParameters } from '../../src/api/query.ts'
import { ANONS, TYPES } from '../../src/proxies/proxy.ts'

const NAMES = ['key', ...describeParameters('the service').map(({ name }) => name)]
const VALUES = [
  ...[...TYPES, ...ANONS, 'smtp', 'google', 'the service', 'the_service', 'the+service', 'de'],
  ...['include', 'except', 'ru', 'en', 'txt', 'json', 'txt.file', 'json.file', 'array', 'object'],
  ...['csv', 'ndjson', 'csv.file', 'port', 'ping', 'works', 'random', 'checked'],
  ...['0', '1', '5', '90', '101', '600', '65535', '65536', '999999999999999', '0x10', '1e3', '-1'],
  ...[
    '1.2.3.4:80',
    '1.2.3.4:080',
    '999.2.3.4:80',
    'Berlin',
    'Москва',
    'ZU\u0308RICH',
    'İstanbul',
    'ΣΑΣ',
    '',
  ],
]
const GARBAGE = ['%', '%zz', '%ff', '%c3%28', '%00', '%0A', '%2C', '%20', '+', '=', '&', ',', '#']

/** Any UTF-16, lone surrogates included. */
const anyText = fc.oneof(
  fc.string(),
  fc.string({ unit: 'binary' }),
  fc.array(fc.integer({ min: 0, max: 0xffff })).map(units => String.fromCharCode(...units)),
)
const fragment = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom(...VALUES) },
  { weight: 2, arbitrary: fc.constantFrom(...VALUES).map(encodeURIComponent) },
  { weight: 1, arbitrary: fc.constantFrom(...GARBAGE) },
  { weight: 1, arbitrary: anyText },
)
const valueText = fc
  .array(fragment, { minLength: 1, maxLength: 3 })
  .chain(parts => fc.constantFrom(parts[0] ?? '', parts.join(','), parts.join('')))
const nameText = fc.oneof(
  { weight: 8, arbitrary: fc.constantFrom(...NAMES) },
  { weight: 1, arbitrary: fc.constantFrom('contry', 'x', ...GARBAGE) },
  { weight: 1, arbitrary: anyText },
)
const piece = fc.tuple(nameText, valueText).map(pair => pair.join('='))
const pieces = fc.array(fc.oneof({ weight: 9, arbitrary: piece }, fragment), { maxLength: 8 })
/** A query string of the grammar, or any text. */
export const anyQuery = fc.oneof(
  pieces.map(all => all.join('&')),
  anyText,
)

/** The header fields of a request that may hold a key. */
export const sending = (authorization: string | null) => ({
  get: (name: string) => (name === 'authorization' ? authorization : null),
})
