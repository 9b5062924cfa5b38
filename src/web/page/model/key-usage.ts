/** Owns what a key says of itself (contract F3): its limits and its use today. */
import { bearer, type LimitLeft, PRIVATE, type Problem, readProblem } from './answer.ts'
import { isObject, list, number, object, text } from './json.ts'

export type KeyUsage = {
  id: string
  label: string
  /** `''` where the kind of key has none. */
  plan: string
  state: string
  /** ISO 8601; `null`: never. */
  expires: string | null
  limits: readonly LimitLeft[]
  /** `null` where it is not counted by key, as with `demo`. */
  today: Today | null
}

export type Today = { requests: number; records: number; refused: number; hours: readonly number[] }

/** The document of a key; members that are missing count as nothing. */
export function readKeyUsage(document: unknown): KeyUsage {
  const { id, label, plan, state, expires, limits, today } = object(document)
  const { requests, records, refused, hours } = object(today)
  return {
    ...{ id: text(id), label: text(label), plan: text(plan), state: text(state) },
    expires: text(expires) || null,
    limits: list(limits).map(limit => {
      const { name, quota, window, left, reset } = object(limit)
      return {
        ...{ name: text(name), quota: number(quota), left: number(left) },
        ...{ windowSeconds: number(window), resetSeconds: number(reset) },
      }
    }),
    today: !isObject(today)
      ? null
      : {
          ...{ requests: number(requests), records: number(records), refused: number(refused) },
          hours: Array.from({ length: 24 }, (_, hour) => number(list(hours)[hour])),
        },
  }
}

export type KeyReply = { kind: 'usage'; usage: KeyUsage } | ({ kind: 'problem' } & Problem)

/** What the service says of a key. @throws when it does not answer. */
export async function askKey(key: string): Promise<KeyReply> {
  const response = await fetch('/key', { ...PRIVATE, headers: bearer(key) })
  if (response.ok) return { kind: 'usage', usage: readKeyUsage(await response.json()) }
  return { kind: 'problem', ...readProblem(await response.text(), response.status) }
}
