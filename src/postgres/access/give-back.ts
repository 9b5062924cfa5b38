/** Owns giving admissions back in PostgreSQL. */
import { type Admitted, giveBack, type Subject } from '../../access/rate-limit.ts'
import { arrayLiteral } from '../arrays.ts'
import type { Query } from '../connection.ts'
import { UnknownOutcome } from '../errors.ts'
import type { KnownUsage } from './known.ts'
import { byKey } from './slots.ts'

/**
 * Returns a function that gives back once: when nobody knows whether that was done, it is not done
 * again, because a second time could give back what another request has used.
 */
export const createGiveBack =
  (query: Query, known: KnownUsage) =>
  async (batch: readonly Admitted[]): Promise<void> => {
    const given: { subject: Subject; atMs: number }[] = []
    for (const admitted of batch) {
      giveBack((subject, atMs) => given.push({ subject, atMs }), admitted)
    }
    given.sort((a, b) => byKey(a.subject, b.subject))
    try {
      await query('select proxylist.give_back($1::text[], $2::text[], $3::bigint[])', [
        arrayLiteral(given.map(({ subject }) => subject.kind)),
        arrayLiteral(given.map(({ subject }) => subject.id)),
        arrayLiteral(given.map(({ atMs }) => atMs)),
      ])
    } catch (failure) {
      if (!(failure instanceof UnknownOutcome)) throw failure
    } finally {
      for (const { subject } of given) known.forget(subject)
    }
  }
