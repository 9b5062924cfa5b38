/** Owns the list of keys: searching, sorting, making one. */
import { useCallback, useMemo, useState } from 'preact/hooks'
import type { Key } from '../../admin/wire.ts'
import { CheckField, SelectField } from '../parts/form.tsx'
import { fill } from '../parts/speech.ts'
import { useConsole } from './context.ts'
import { type KeyFilter, type KeySort, planOf, selectKeys, TEMPORARY } from './key-filter.ts'
import { NewKeyDialog } from './key-forms.tsx'
import { KeyRow } from './key-row.tsx'
import { useLive } from './live.ts'
import { Empty, LiveNotice } from './notice.tsx'
import { SecretDialog } from './secret.tsx'
import { usePlans } from './use-plans.ts'

/** Rows that are drawn at once: thousands would make each key stroke slow. */
const STEP = 200
const REFRESH_SECONDS = 30
const NO_KEYS: readonly Key[] = []

function Filters({ plans }: { plans: readonly string[] }) {
  const { speech, keyFilter: filter, setKeyFilter } = useConsole()
  const { words } = speech
  const set = (change: Partial<KeyFilter>): void => setKeyFilter({ ...filter, ...change })
  return (
    <search class="filters">
      <input
        class="input"
        type="search"
        name="search"
        aria-label={words.search}
        placeholder={words.searchKeys}
        value={filter.search}
        onInput={event => set({ search: event.currentTarget.value })}
      />
      <SelectField
        label={words.plan}
        name="plan-filter"
        isBare
        value={filter.plan ?? ''}
        onChange={plan => set({ plan: plan === '' ? null : plan })}
        options={[
          ['', words.anyPlan],
          ...plans.map(name => [name, name === TEMPORARY ? words.temporary : name] as const),
        ]}
      />
      <CheckField
        label={words.ended}
        name="ended"
        isOn={filter.showsEnded}
        onChange={showsEnded => set({ showsEnded })}
      />
    </search>
  )
}

const COLUMNS = [
  ['label', 'key'],
  ['plan', 'plan'],
  ['today', 'today'],
  ['seen', 'lastSeen'],
  ['expires', 'ends'],
  ['state', 'state'],
] as const satisfies readonly (readonly [KeySort, string])[]

/** The head of the table, whose cells are buttons that sort. */
function Head() {
  const { speech, keyFilter: filter, setKeyFilter } = useConsole()
  const { words } = speech
  const sortBy = (sort: KeySort): void => {
    const isDescending =
      filter.sort === sort ? !filter.isDescending : sort === 'today' || sort === 'seen'
    setKeyFilter({ ...filter, sort, isDescending })
  }
  const order = filter.isDescending ? 'descending' : 'ascending'
  return (
    <thead>
      <tr>
        {COLUMNS.map(([sort, word]) => (
          <th
            key={sort}
            scope="col"
            class={`col-${sort}`}
            aria-sort={filter.sort === sort ? order : undefined}
          >
            <button type="button" onClick={() => sortBy(sort)}>
              {words[word]}
            </button>
          </th>
        ))}
      </tr>
    </thead>
  )
}

function Table({ selected, hasKeys }: { selected: readonly Key[]; hasKeys: boolean }) {
  const { words, number } = useConsole().speech
  const [most, setMost] = useState(STEP)
  if (selected.length === 0) return <Empty>{hasKeys ? words.noMatch : words.noKeys}</Empty>
  const left = selected.length - most
  return (
    <>
      <table class="keys">
        <caption class="hidden">{words.keys}</caption>
        <Head />
        <tbody>
          {selected.slice(0, most).map(key => (
            <KeyRow key={key.id} item={key} />
          ))}
        </tbody>
      </table>
      {left > 0 && (
        <button type="button" class="quiet" onClick={() => setMost(most + STEP)}>
          {fill(words.showMore, { n: number(Math.min(left, STEP)) })}
        </button>
      )}
    </>
  )
}

export function KeysView() {
  const { client, speech, keyFilter } = useConsole()
  const { words, number } = speech
  const load = useCallback(
    (signal: AbortSignal) => client.get<{ keys: Key[] }>('/console/keys', signal),
    [client],
  )
  const live = useLive(load, REFRESH_SECONDS)
  const plans = usePlans()
  const [isMaking, setMaking] = useState(false)
  const [secret, setSecret] = useState<string | null>(null)
  const keys = live.value?.keys ?? NO_KEYS
  const selected = useMemo(() => selectKeys(keys, keyFilter), [keys, keyFilter])
  const counts = { shown: number(selected.length), total: number(keys.length) }
  const names = [...new Set([...keys.map(planOf), ...(plans.value?.plans ?? []).map(p => p.name)])]
  return (
    <>
      <div class="bar-above">
        <Filters plans={names.filter(name => name !== 'demo').sort()} />
        <span class="soft" role="status">
          {live.value && fill(words.keysIntro, counts)}
        </span>
        <button type="button" class="primary" onClick={() => setMaking(true)}>
          {words.newKey}
        </button>
      </div>
      <LiveNotice live={live} />
      {live.value && (
        <section class="card table-card" aria-label={words.keys}>
          <Table selected={selected} hasKeys={keys.length > 0} />
        </section>
      )}
      {isMaking && (
        <NewKeyDialog
          plans={plans.value?.plans ?? []}
          onClose={() => setMaking(false)}
          onMade={made => {
            setMaking(false)
            setSecret(made.key)
            void live.refresh()
          }}
        />
      )}
      {secret !== null && <SecretDialog secret={secret} onClose={() => setSecret(null)} />}
    </>
  )
}
