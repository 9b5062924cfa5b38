/** The list that the fuzzed server serves, and requests whose answers are known from it. */
import { TYPES } from '../../support/rows.ts'
import type { Probe } from './client.ts'

const FRESH = 24
/** So many that the stream worker renders them; only a `time` over a day shows them. */
const OLD = 1_100
const OLD_SECONDS = 80_000

const freshRow = (n: number) => ({
  ip: `203.0.${100 + (n % 12)}.${n}:1080`,
  type: TYPES[n % TYPES.length] ?? 'http',
  ping: n / 100,
  country: n % 2 === 0 ? 'DE' : 'FR',
  city: n % 3 === 0 ? '' : 'Берлин',
  city_en: n % 3 === 0 ? '' : 'Berlin',
  works: String(60 + n),
  anon: 'elite',
  telegram: n % 2 === 0,
})

/** The list, as rows of a file; fresh ones were checked at `checkedAt` (Unix seconds). */
export function listRows(checkedAt: number) {
  const fresh = Array.from({ length: FRESH }, (_, n) => ({ ...freshRow(n), checked_at: checkedAt }))
  const old = Array.from({ length: OLD }, (_, n) => ({
    ip: `10.9.${n >> 8}.${n & 255}:3128`,
    type: 'http',
    checked_at: checkedAt - OLD_SECONDS,
  }))
  return [...fresh, ...old]
}

/** Requests with an unlimited key, and the bytes that answer them. */
export function probesOf(key: string): Probe[] {
  const rows = Array.from({ length: FRESH }, (_, n) => freshRow(n))
  const ask = `/api?key=${encodeURIComponent(key)}`
  const french = rows.filter(({ country }) => country === 'FR')
  return [
    {
      target: `${ask}&type=${TYPES[3]}&type_prefix=1`,
      body: rows
        .filter(({ type }) => type === TYPES[3])
        .map(({ ip }) => `${TYPES[3]}://${ip}\n`)
        .join(''),
    },
    {
      target: `${ask}&country=fr&get=json&pretty=0&fields=works,ip`,
      body: JSON.stringify(french.map(({ ip, works }) => ({ ip, works }))),
    },
    {
      target: `${ask}&country=fr&time=80000`,
      body: french.map(({ ip }) => `${ip}\n`).join(''),
    },
    { target: '/healthz', body: 'ok\n' },
  ]
}
