/** Access keys: their kinds, format, creation and hash (contract B1). */
import type { BlockList } from 'node:net'
import type { Plan } from './plan.ts'

export const DEMO_KEY = 'demo'
export const TEMP_PREFIX = 'temp_'
const REGULAR_PREFIX = 'pl_'

export type Caller =
  | { kind: 'regular'; id: string; plan: Plan }
  | { kind: 'temp'; id: string; plan: Plan }
  | { kind: 'demo'; id: 'demo'; plan: Plan }

/** A key and its owner. Times are Unix milliseconds. For an old secret, `expiresAt` is the end of its overlap. */
export type KeyRecord = {
  caller: Caller
  label: string
  /** The networks that may use it (contract G5); `null`: all. */
  callers: BlockList | null
  expiresAt: number | null
  revokedAt: number | null
}

/** The stored properties of a key besides its secrets. Times are Unix milliseconds. */
type KeyProperties = {
  id: string
  prefix: string
  /** The customer may see it, see `api/key-report.ts`. */
  label: string
  /** Only the operator sees it. */
  note: string
  /** The networks that may use it: addresses and CIDR ranges, separated by commas; `''`: all. */
  from: string
  /** `null`: a temporary key. */
  plan: string | null
  createdAt: number
  expiresAt: number | null
  revokedAt: number | null
}

/** The values that lists search and sort by. Stores read them quickly, even for all keys. */
export type KeySummary = KeyProperties & {
  /** Whether its plan is on. */
  isEnabled: boolean
  requestsToday: number
  /** Its last admission; `null` when none is known. */
  lastSeenMs: number | null
}

export type ListedKey = Omit<KeySummary, 'lastSeenMs'> & {
  subnetsToday: number
  /** Networks of its callers. */
  clientsToday: number
  /** The ends of current overlaps of old secrets, in order. */
  oldSecretsUntil: readonly number[]
}

export type EndingKey = Pick<KeyProperties, 'id' | 'label'> & { expiresAt: number }

/** A key with fewer refused requests needs no attention: programs are tried out. */
export const REFUSED_MIN = 20

/** A key that a limit refused, with its admitted and refused requests of the UTC day. */
export type RefusedKey = Pick<KeyProperties, 'id' | 'label'> & { requests: number; refused: number }

/** The end of an old secret: the end of its overlap or of its key, whichever is earlier. */
export const secretEnd = (overlapUntilMs: number, { expiresAt }: KeyProperties): number =>
  Math.min(overlapUntilMs, expiresAt ?? overlapUntilMs)

export type KeyState = 'active' | 'expired' | 'revoked' | 'off'

/** The state of a key; `off`: its plan is switched off. */
export function keyState(
  key: Pick<ListedKey, 'revokedAt' | 'expiresAt' | 'isEnabled'>,
  nowMs: number,
): KeyState {
  if (key.revokedAt !== null) return 'revoked'
  if (key.expiresAt !== null && nowMs >= key.expiresAt) return 'expired'
  return key.isEnabled ? 'active' : 'off'
}

/** Changes of a key. Omitted values do not change. */
export type KeyChanges = {
  label?: string
  note?: string
  from?: string
  plan?: string
  expiresAt?: number | null
}

export type StoredKey = KeyProperties & {
  /** SHA-256 of the secret. */
  hash: Uint8Array
  oldSecrets: readonly { hash: Uint8Array; expiresAt: number }[]
}

export type NewKey = Pick<KeyProperties, 'label' | 'note' | 'from' | 'plan' | 'expiresAt'> & {
  key: string
}

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789'
const SECRET_LENGTH = 32
const ID_LENGTH = 8

/** `length` characters of `alphabet` from the operating system's random source, without bias. */
function randomText(length: number, alphabet: string): string {
  const fair = 256 - (256 % alphabet.length) // larger bytes would favour the first letters
  let text = ''
  while (text.length < length) {
    const bytes = crypto.getRandomValues(new Uint8Array(length))
    for (const byte of bytes) if (byte < fair) text += alphabet[byte % alphabet.length]
  }
  return text.slice(0, length)
}

/** A new random key: the prefix of its kind and 32 letters or digits (190 bits). */
export const newKey = (kind: 'regular' | 'temp'): string =>
  (kind === 'temp' ? TEMP_PREFIX : REGULAR_PREFIX) + randomText(SECRET_LENGTH, ALPHABET)

/** Ids and shown prefixes of keys of any installation. */
export const KEY_ID = /^[a-z0-9]{1,40}$/
export const KEY_PREFIX = /^\P{Cc}{0,8}$/u

/** A short public id: lower case, so that it can be read aloud. */
export const newKeyId = (): string => randomText(ID_LENGTH, ALPHABET.slice(26))

/** SHA-256, the only form in which a key is stored. */
export const hashKey = (key: string): Uint8Array =>
  new Uint8Array(new Bun.CryptoHasher('sha256').update(key).digest().buffer)

/** The start of a key that lists show: enough to recognise it, and at most a third of it. */
export const shownPrefix = (key: string): string =>
  key.slice(0, Math.min(8, Math.floor(key.length / 3)))
