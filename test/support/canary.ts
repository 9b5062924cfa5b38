/** Keys that no output may hold, data directories with them, and the search for them. */
import { join } from 'node:path'
import { addKeys, addList, T0 } from './fixtures.ts'
import { temporaryDirectory } from './temporary.ts'

/** Letters and digits that look random and are the same in every run. */
const secretOf = (name: string): string =>
  new Bun.CryptoHasher('sha256').update(name).digest('base64').replace(/[^\w]/g, 'x').slice(0, 32)

const HOUR = 3_600_000
/** What the registry holds of each key at T0; the plan `null` is a temporary key's. */
const STORED = {
  good: { plan: 'free' },
  once: { plan: 'once' },
  daily: { plan: 'daily' },
  narrow: { plan: 'narrow' },
  expired: { plan: 'free', expiresAt: T0 - HOUR },
  revoked: { plan: 'free', revokedAt: T0 - HOUR },
  both: { plan: 'free', expiresAt: T0 - HOUR, revokedAt: T0 - HOUR },
  temp_good: { plan: null, expiresAt: T0 + HOUR },
  temp_expired: { plan: null, expiresAt: T0 - HOUR },
  temp_revoked: { plan: null, expiresAt: T0 + HOUR, revokedAt: T0 - HOUR },
} as const

/** Every canary by name; `unknown` and `temp_unknown` are in no database. */
export const CANARY = Object.fromEntries(
  [...Object.keys(STORED), 'unknown', 'temp_unknown'].map(name => [
    name,
    (name.startsWith('temp_') ? 'temp_' : 'pl_') + secretOf(name),
  ]),
) as { [name in keyof typeof STORED | 'unknown' | 'temp_unknown']: string } // as listed
export const CANARIES = Object.values(CANARY)

const PLANS = {
  free: {},
  once: { burst: { requests: 1, seconds: 3600 } },
  daily: { daily: 1 },
  narrow: { subnets: 1 },
}

/** A data directory with a list over two /16 networks and all canaries that are known. */
export function canaryDirectory(): string {
  const dir = join(temporaryDirectory(), 'data')
  addList(dir, [
    { ip: '192.0.2.1:80', type: 'http', city: 'Омск', works: 95 },
    { ip: '198.51.100.1:80', type: 'http', works: 95 },
  ])
  const keys = Object.entries(STORED).map(([name, stored]) => ({
    ...{ key: CANARY[name as keyof typeof STORED], label: name }, // the table's own names
    ...stored,
  }))
  addKeys(dir, PLANS, keys, T0)
  return dir
}

/** Characters of a key that a list may show: these are not searched for. */
const SHOWN = 8
/** Ten successive characters of a key are a trace of it: among them is one of its parts. */
const PART = { characters: 8, every: 3 }

/** The three ways in which base64 spells a text inside a longer one, without the uncertain ends. */
const base64Of = (text: string): string[] =>
  [0, 1, 2].map(shift =>
    Buffer.from(' '.repeat(shift) + text)
      .toString('base64')
      .slice(shift === 0 ? 0 : 4, -4),
  )

/** The ways in which a part of a key could be written, in lower case. */
function spellingsOf(part: string): string[] {
  const hex = Buffer.from(part).toString('hex')
  const percent = hex.replace(/../g, '%$&')
  return [part, hex, percent, [...part].reverse().join('')].map(text => text.toLowerCase())
}

const SPELLINGS = CANARIES.flatMap(key => {
  const hidden = key.slice(SHOWN)
  const starts = [...hidden].map((_, at) => at).filter(at => at % PART.every === 0)
  const parts = starts.map(at => hidden.slice(at, at + PART.characters))
  return [
    ...parts.filter(part => part.length === PART.characters).flatMap(spellingsOf),
    ...base64Of(hidden).map(text => text.toLowerCase()),
  ]
})

/** The traces of all canaries in a text or in bytes, in any spelling. */
export function tracesIn(content: string | Uint8Array): string[] {
  const text = typeof content === 'string' ? content : Buffer.from(content).toString('latin1')
  const lower = text.toLowerCase()
  return SPELLINGS.filter(spelling => lower.includes(spelling))
}
