/** Rows of files for tests of imports: what they say, and proxies of few values that meet. */
import fc from 'fast-check'
import { isCityName, YEAR_2000 } from '../../src/import/values.ts'
import {
  ANONS,
  type IncomingProxy,
  type Proxy,
  SERVICES,
  type Service,
} from '../../src/proxies/proxy.ts'
import type { ImportCounts, ImportMode, ProxyWriter } from '../../src/proxies/store.ts'
import { typeBits } from '../../src/proxies/types.ts'
import { T0 } from './fixtures.ts'

export const NOW = T0 / 1000
export const BIG = 999_999_999_999_999
/** The longest ping that an import reads. */
const PING_MAX = 60_000

/** A row of a file that says nothing but its address, type and time. */
export const BARE: IncomingProxy = {
  ip: '10.0.0.1',
  port: 80,
  ipOut: '',
  types: typeBits(['http']),
  anon: '',
  speed: null,
  pingMs: null,
  checkedAt: NOW - 100,
  country: '',
  city: '',
  cityEn: '',
  works: null,
  services: new Set(),
  servicesStated: new Set(),
}
/** A row that says everything. */
export const FULL: IncomingProxy = {
  ...BARE,
  ipOut: '192.0.2.1',
  anon: 'elite',
  speed: 1000,
  pingMs: 500,
  country: 'DE',
  city: 'Берлин',
  cityEn: 'Berlin',
  works: 97,
  services: new Set(['smtp', 'google']),
  servicesStated: new Set(SERVICES),
}
export const LATER = { checkedAt: NOW - 50 }

export const stripped = ({ servicesStated: _, ...proxy }: IncomingProxy): Proxy => proxy

export const OTHER: IncomingProxy = {
  ...FULL,
  ...LATER,
  ...{ ipOut: '192.0.2.2', types: typeBits(['socks5']), anon: 'transparent', speed: 0, pingMs: 0 },
  ...{ country: 'FR', city: 'Париж', cityEn: 'Paris', works: 0 },
  services: new Set(['telegram', 'provider']),
}

type Pair = [city: string, cityEn: string]
/** The names that are stored, those of a newer row, and what is stored then. */
export const BY_CITY = [
  '/ + / = /',
  '/ + Берлин/ = Берлин/',
  '/ + /Berlin = /Berlin',
  '/ + Берлин/Berlin = Берлин/Berlin',
  'Берлин/Berlin + / = Берлин/Berlin',
  'Берлин/Berlin + Берлин/ = Берлин/Berlin',
  'Берлин/Berlin + Berlin/ = Берлин/Berlin', // from an export with lang=en
  'Берлин/Berlin + Берлин/Berlin City = Берлин/Berlin City',
  'Берлин/Berlin + /Berlin City = Берлин/Berlin City',
  'Берлин/Berlin + Париж/ = Париж/', // no Paris called Berlin
  'Берлин/Berlin + Париж/Paris = Париж/Paris',
  'Берлин/ + Париж/ = Париж/',
  'Берлин/ + /Berlin = Берлин/Berlin',
  'Берлин/ + Берлин/Berlin = Берлин/Berlin',
  '/Berlin + Берлин/ = Берлин/',
  '/Berlin + Берлин/Berlin = Берлин/Berlin',
].map(text => text.split(/ [+=] /).map(names => names.split('/')) as [Pair, Pair, Pair])

export const at = (host: number, more: Partial<IncomingProxy> = {}): IncomingProxy => ({
  ...BARE,
  ip: `10.0.0.${host}`,
  ...more,
})
export const older = { checkedAt: NOW - 200 }
const unknownOr = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: null, freq: 2 })
const upTo = (max: number) => fc.integer({ min: 0, max })
const someSet = fc.subarray([...SERVICES]).map(services => new Set<Service>(services))

/** Rows of few addresses and few values, so that they meet, and sometimes are the same. */
export const someIncoming = (): fc.Arbitrary<IncomingProxy> =>
  fc
    .record({
      ip: fc.constantFrom('9.0.0.1', '10.0.0.1', '100.0.0.1', '255.255.255.255'),
      port: fc.constantFrom(1, 65535),
      ipOut: fc.constantFrom('', '192.0.2.1', '2001:db8::1'),
      types: fc.integer({ min: 1, max: 15 }),
      anon: fc.constantFrom('', ...ANONS),
      speed: unknownOr(fc.constantFrom(0, 5, BIG)),
      pingMs: unknownOr(fc.constantFrom(0, 5, PING_MAX)),
      checkedAt: fc.constantFrom(NOW, NOW - 1, NOW - 2),
      country: fc.constantFrom('', 'DE', 'FR'),
      city: fc.constantFrom('', 'Берлин', 'Париж', 'Berlin'),
      cityEn: fc.constantFrom('', 'Berlin', 'Paris'),
      works: unknownOr(fc.constantFrom(0, 50, 100)),
      granted: someSet,
      servicesStated: someSet,
    })
    .map(({ granted, ...row }) => ({ ...row, services: granted.intersection(row.servicesStated) }))

const cityCharacter = fc.oneof(
  fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }),
  fc.constantFrom(...'"\\{}[]:#; ёЁ'),
)
const someCity = fc
  .string({ unit: cityCharacter, maxLength: 200 })
  .map(name =>
    name
      .replace(/[\u0000-\u001f\u007f,]/g, '')
      .toWellFormed()
      .trim(),
  )
  .filter(isCityName)

/** An address that a proxy may have, and that is not masked. */
const usableIp = fc.ipV4().filter(ip => !/^(?:0|169\.254|22[4-9]|2[3-5].)\.|\.0\.0$/.test(ip))

/** Rows of any value a file may hold. */
export const anyIncoming = (): fc.Arbitrary<IncomingProxy> =>
  fc.record({
    ip: usableIp,
    port: fc.integer({ min: 1, max: 65535 }),
    ipOut: fc.oneof(fc.constantFrom('', '2001:db8::1', '::1'), fc.ipV4()),
    types: fc.integer({ min: 1, max: 15 }),
    anon: fc.constantFrom('', ...ANONS),
    speed: unknownOr(upTo(BIG)),
    pingMs: unknownOr(upTo(PING_MAX)),
    checkedAt: fc.oneof(fc.integer({ min: YEAR_2000, max: NOW + 300 }), fc.constant(NOW)),
    country: fc.constantFrom('', 'DE', 'RU'),
    city: someCity,
    cityEn: fc.oneof(fc.constant(''), someCity),
    works: unknownOr(upTo(100)),
    services: someSet,
    servicesStated: fc.constant(new Set(SERVICES)),
  })

/** Imports rows into a list, in one step, which need not wait. */
export async function load(
  list: Pick<ProxyWriter, 'begin'>,
  rows: Iterable<IncomingProxy>,
  mode: ImportMode = 'merge',
): Promise<ImportCounts> {
  const importTx = list.begin(mode, () => {
    throw new Error('it waited')
  })
  for (const row of rows) importTx.add(row)
  return importTx.commit()
}
