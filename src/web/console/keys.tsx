/** The list of keys: searching, sorting, making one. */
import { useMemo, useState } from 'preact/hooks'
import type { Key, MadeKey, Plan } from '../../admin/wire.ts'
import { Level } from '../parts/amounts.tsx'
import { CheckField, Radios, SelectField, TextField } from '../parts/form.tsx'
import { State } from '../parts/key.tsx'
import { Table } from '../parts/table.tsx'
import { keyHref } from './address.ts'
import { useConsole } from './context.ts'
import { FormDialog, LiveNotice, SecretDialog, When } from './dialog.tsx'
import { type KeyFilter, type KeySort, planOf, selectKeys, TEMPORARY } from './key-filter.ts'
import { useLive } from './live.ts'
import { usePlans } from './plans.tsx'
import { ago, dateOf, number, SAY } from './speech.ts'

/** Rows that are drawn at once: thousands would make each key stroke slow. */
const STEP = 200
const REFRESH_SECONDS = 30
const NO_KEYS: readonly Key[] = []
/** From here on the use of a limit is shown as close to it. */
const CLOSE = 0.8

function Row({ item }: { item: Key }) {
  const { id, prefix, label, note, plan, state, expires } = item
  const { requests_today, daily_limit, last_seen } = item
  const share = daily_limit ? requests_today / daily_limit : 0
  return (
    <tr data-ended={state === 'revoked' || state === 'expired' || undefined}>
      <th scope="row" class="col-label">
        <a href={keyHref(id)}>{label === '' ? <span class="soft">no label</span> : label}</a>
        <code>{prefix}…</code> <code class="id">{id}</code> <small>{note}</small>
      </th>
      <td class="col-plan">{plan ?? 'temporary'}</td>
      <td class="col-today" data-unlimited={daily_limit === null || undefined}>
        <Level share={share} isLow={share >= CLOSE} />
        <span class="number">
          {number(requests_today)}
          {daily_limit !== null && <small> / {number(daily_limit)}</small>}
        </span>
      </td>
      <td class="col-seen">
        <When time={last_seen} show={ago} />
      </td>
      <td class="col-expires">
        <When time={expires} none="never" show={dateOf} />
      </td>
      <td class="col-state">
        <State state={state} say={SAY} />
      </td>
    </tr>
  )
}

const COLUMNS = Object.entries({
  ...{ label: 'Key', plan: 'Plan', today: 'Today' },
  ...{ seen: 'Last seen', expires: 'Ends', state: 'State' },
}) as [KeySort, string][]

/** The columns, whose names are buttons that sort. */
function useColumns() {
  const { keyFilter: filter, setKeyFilter } = useConsole()
  const sortBy = (sort: KeySort): void => {
    const isDescending =
      filter.sort === sort ? !filter.isDescending : sort === 'today' || sort === 'seen'
    setKeyFilter({ ...filter, sort, isDescending })
  }
  const order = filter.isDescending ? 'descending' : 'ascending'
  return COLUMNS.map(([sort, name]) => ({
    ...{ name, look: `col-${sort}` },
    more: { 'aria-sort': filter.sort === sort ? order : undefined },
    head: (
      <button type="button" onClick={() => sortBy(sort)}>
        {name}
      </button>
    ),
  }))
}

function Rows({ selected, hasKeys }: { selected: readonly Key[]; hasKeys: boolean }) {
  const [most, setMost] = useState(STEP)
  const columns = useColumns()
  if (selected.length === 0) {
    const none = hasKeys ? 'No key matches.' : 'There is no key yet. Make the first one.'
    return <p class="empty">{none}</p>
  }
  const left = selected.length - most
  return (
    <>
      <Table caption="Keys" look="keys" columns={columns}>
        {selected.slice(0, most).map(key => (
          <Row key={key.id} item={key} />
        ))}
      </Table>
      {left > 0 && (
        <button type="button" class="quiet" onClick={() => setMost(most + STEP)}>
          Show {number(Math.min(left, STEP))} more
        </button>
      )}
    </>
  )
}

function Filters({ plans }: { plans: readonly string[] }) {
  const { keyFilter: filter, setKeyFilter } = useConsole()
  const set = (change: Partial<KeyFilter>): void => setKeyFilter({ ...filter, ...change })
  return (
    <search class="key-filters">
      <input
        class="input"
        type="search"
        name="search"
        aria-label="Search"
        placeholder="Label, note, id, prefix, plan"
        value={filter.search}
        onInput={event => set({ search: event.currentTarget.value })}
      />
      <SelectField
        label="Plan"
        name="plan-filter"
        isBare
        value={filter.plan ?? ''}
        onChange={plan => set({ plan: plan === '' ? null : plan })}
        options={[
          ['', 'Any plan'],
          ...plans.map(name => [name, name === TEMPORARY ? 'temporary' : name] as const),
        ]}
      />
      <CheckField
        label="Expired and revoked"
        name="ended"
        isOn={filter.showsEnded}
        onChange={showsEnded => set({ showsEnded })}
      />
    </search>
  )
}

type FieldProps = { value: string; onChange(value: string): void }

export const LabelField = (field: FieldProps) => (
  <TextField {...field} label="Label" name="label" hint="the customer sees it" />
)

export const NoteField = (field: FieldProps) => (
  <TextField {...field} label="Note" name="note" hint="only you see it" />
)

/** The plan of a regular key. */
export function PlanField({ plans, ...field }: FieldProps & { plans: readonly Plan[] }) {
  const names = plans.map(({ name }) => name).filter(name => name !== 'demo' && name !== TEMPORARY)
  return (
    <SelectField label="Plan" name="plan" {...field} options={names.map(name => [name, name])} />
  )
}

/** The end of a key, in the forms of the command line. */
export const ExpiresField = (field: FieldProps) => (
  <TextField {...field} label="Expires" name="expires" hint="30d, 2027-01-31, or empty for never" />
)

type NewKeyProps = { plans: readonly Plan[]; onClose(): void; onMade(made: MadeKey): void }

function NewKeyDialog({ plans, onClose, onMade }: NewKeyProps) {
  const { client } = useConsole()
  const [kind, setKind] = useState<'regular' | 'temp'>('regular')
  const [label, setLabel] = useState('')
  const [note, setNote] = useState('')
  const [plan, setPlan] = useState('standard')
  const [expires, setExpires] = useState('')
  const [ttl, setTtl] = useState('24h')
  const isTemporary = kind === 'temp'
  const submit = async (): Promise<void> => {
    const end = expires.trim()
    const rest = isTemporary ? { ttl: ttl.trim() } : { plan, ...(end && { expires: end }) }
    onMade(await client.send<MadeKey>('POST', '/console/keys', { kind, label, note, ...rest }))
  }
  return (
    <FormDialog title="New key" action="Make the key" onSubmit={submit} onClose={onClose}>
      <LabelField value={label} onChange={setLabel} />
      <NoteField value={note} onChange={setNote} />
      <div class="field">
        <span aria-hidden="true">Kind</span>
        <Radios
          label="Kind"
          name="kind"
          value={kind}
          onChange={setKind}
          options={[
            ['regular', 'Regular'],
            ['temp', 'Temporary'],
          ]}
        />
        <small>
          {isTemporary
            ? 'a trial: 2 requests per hour, ends by itself'
            : 'for a customer, until it is revoked or expires'}
        </small>
      </div>
      {isTemporary ? (
        <TextField
          label="Valid for"
          name="ttl"
          value={ttl}
          onChange={setTtl}
          hint="such as 1h or 24h"
        />
      ) : (
        <>
          <PlanField plans={plans} value={plan} onChange={setPlan} />
          <ExpiresField value={expires} onChange={setExpires} />
        </>
      )}
    </FormDialog>
  )
}

export function KeysView() {
  const { client, keyFilter } = useConsole()
  const live = useLive<{ keys: Key[] }>(client, '/console/keys', REFRESH_SECONDS)
  const plans = usePlans().value?.plans ?? []
  const [isMaking, setMaking] = useState(false)
  const [secret, setSecret] = useState<string | null>(null)
  const keys = live.value?.keys ?? NO_KEYS
  const selected = useMemo(() => selectKeys(keys, keyFilter), [keys, keyFilter])
  const names = [...new Set([...keys.map(planOf), ...plans.map(({ name }) => name)])]
  return (
    <>
      <div class="bar-above">
        <Filters plans={names.filter(name => name !== 'demo').sort()} />
        <span class="soft" role="status">
          {live.value && `${number(selected.length)} of ${number(keys.length)}`}
        </span>
        <button type="button" class="primary" onClick={() => setMaking(true)}>
          New key
        </button>
      </div>
      <LiveNotice live={live} />
      {live.value && (
        <section class="card table-card" aria-label="Keys">
          <Rows selected={selected} hasKeys={keys.length > 0} />
        </section>
      )}
      {isMaking && (
        <NewKeyDialog
          plans={plans}
          onClose={() => setMaking(false)}
          onMade={({ key, ...item }) => {
            setMaking(false)
            setSecret(key)
            live.change(({ keys }) => ({ keys: [...keys, item] }))
          }}
        />
      )}
      {secret !== null && <SecretDialog secret={secret} onClose={() => setSecret(null)} />}
    </>
  )
}
