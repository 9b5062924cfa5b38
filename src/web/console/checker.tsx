/** The checker, as the overview shows it: what it knows, how fresh that is, and why checks fail. */
import type { Overview } from '../../admin/api-types.ts'
import { Card, Facts } from '../parts/table.tsx'
import { ago, amount, bytes, number, share, UNKNOWN } from './format.ts'

type Checker = NonNullable<Overview['checker']>

/** Reasons that are named; of the others it says how many checks they failed. */
const REASONS_MAX = 5

function reasonsOf({ failures }: Checker): string {
  const all = Object.entries(failures).sort(([, a], [, b]) => b - a)
  const named = all.slice(0, REASONS_MAX).map(([reason, n]) => `${number(n)} ${reason}`)
  const others = all.slice(REASONS_MAX).reduce((sum, [, n]) => sum + n, 0)
  return [...named, ...(others > 0 ? [`${number(others)} others`] : [])].join(', ') || 'none'
}

const factsOf = (checker: Checker): (readonly [name: string, value: string])[] => {
  const { queues, coverage, checked, alive, deferred, per_second: rate } = checker
  const { living, down, raw } = queues
  return [
    ['Addresses', `${number(living)} living, ${number(down)} down, ${number(raw)} never alive`],
    ['Found within ten minutes', coverage === null ? UNKNOWN : `${share(coverage)} of the living`],
    ['Checks', `${amount(rate)}/s · ${number(alive)} of ${number(checked)} alive`],
    ['Put off', number(deferred)],
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
