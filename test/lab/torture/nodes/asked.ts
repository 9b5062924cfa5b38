/** Reading the notes of the clients: what each request was answered, or that it was not. */

import type { Note } from '../limiter/client.ts'
import { createCallers, linesOf, type Observed } from '../limiter/records.ts'
import type { Kind } from '../limiter/traffic.ts'
import type { Ids } from '../limiter/world.ts'

/** A request as its client saw it; `node` is the number of the node that it was sent to. */
export type Asked = Omit<Observed, 'nowMs'> & { node: number }

/** The limits in a RateLimit field, by name: what remains, and the seconds until more does. */
export type Shown = ReadonlyMap<string, { remaining: number; resetSeconds: number }>

export const shownOf = ({ rateLimit }: Pick<Asked, 'rateLimit'>): Shown =>
  new Map(
    [...rateLimit.matchAll(/"([^"]+)";r=(\d+);t=(\d+)/g)].map(([, name = '', r, t]) => [
      name,
      { remaining: Number(r), resetSeconds: Number(t) },
    ]),
  )

/**
 * What a request came to: `admitted` counts, `refused` does not; of one that is `unknown`, because the
 * connection ended or the database was away, nobody can say; `wrong` must not be.
 */
export type Outcome = 'admitted' | 'refused' | 'unknown' | 'wrong'

const REFUSALS = [
  ...['RATE_LIMIT_EXCEEDED', 'DAILY_LIMIT_REACHED', 'DEMO_LIMIT_REACHED', 'TEMP_LIMIT_REACHED'],
]

export function outcomeOf({ status, code, retryAfter }: Asked): Outcome {
  if (status === 200 || status === 404 || code === 'SUBNET_LIMIT_REACHED') return 'admitted'
  if (status === 429 && REFUSALS.includes(code)) return 'refused'
  if (status === 0) return 'unknown'
  return code === 'DB_EXECUTE_FAILED' && status === 503 && retryAfter !== '' ? 'unknown' : 'wrong'
}

/** Reads the notes of each node's clients; `ids` are those of the keys, by kind and subject. */
export async function readAsked(
  files: readonly string[],
  kinds: readonly Kind[],
  ids: Ids,
): Promise<Asked[]> {
  const callerOf = createCallers(ids)
  const asked: Asked[] = []
  for (const [node, file] of files.entries()) {
    for await (const note of linesOf<Note>(file)) {
      const of = kinds[note.kind]
      if (!of) throw new Error(`there is no kind ${note.kind}`)
      const isError = note.status !== 200 && note.body !== ''
      const { code = '', ...fields } = isError ? JSON.parse(note.body) : {}
      asked.push({ ...note, node, of, code, fields, ...callerOf(note, of) })
    }
  }
  return asked
}
