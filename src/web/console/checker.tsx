/** The status of the checker, and why checks fail. */
import type { Overview } from '../../admin/api-types.ts'
import { Card, Facts } from '../parts/table.tsx'
import { ago, amount, bytes, number, share, UNKNOWN } from './format.ts'

type Checker = NonNullable<Overview['checker']>

const reasonsOf = ({ failures }: Checker): string =>
  Object.entries(failures)
    .sort(([, a], [, b]) => b - a)
    .map(([reason, n]) => `${number(n)} ${reason}`)
    .join(', ') || 'none'

const factsOf = (checker: Checker): (readonly [name: string, value: string])[] => {
  const { queues, coverage, checked, alive, deferred, per_second: rate } = checker
  const { living, down, raw } = queues
  return [
    ['Addresses', `${number(living)} living, ${number(down)} down, ${number(raw)} never alive`],
    ['Found within ten minutes', coverage === null ? UNKNOWN : `${share(coverage)} of the living`],
    ['Checks', `${amount(rate)}/s · ${number(alive)} of ${number(checked)} alive`],
    ['Deferred', number(deferred)],
    ['Failed', reasonsOf(checker)],
    ['Late by at most', `${amount(checker.lag_seconds)} s`],
    ['Sent and received', bytes(checker.bytes)],
  ]
}

export const CheckerCard = ({ checker }: { checker: Checker | null }) =>
  checker && (
    <Card title="Checker" hint={ago(checker.at)}>
      <Facts look="key-facts" facts={factsOf(checker)} />
    </Card>
  )
