/** The list of keys: its pages, searching and sorting them, changing several, making one. */
import { useEffect, useState } from 'preact/hooks'
import type { ChangedKeys, Key, KeyPage, KeySort, Limit, MadeKey, Plan } from '../../admin/wire.ts'
import { Level } from '../parts/amounts.tsx'
import { CheckField, Radios, SelectField, TextField } from '../parts/form.tsx'
import { limitName, State } from '../parts/key.tsx'
import { Table } from '../parts/table.tsx'
import { keyHref } from './address.ts'
import { useConsole } from './context.ts'
import { FormDialog, LiveNotice, type Secret, SecretDialog, secretOf, When } from './dialog.tsx'
import { type KeyFilter, pathOf, TEMPORARY } from './key-filter.ts'
import { type Live, useLive } from './live.ts'
import { Spark } from './overview.tsx'
import { usePlans } from './plans.tsx'
import { ago, countdown, dateOf, number, SAY, share } from './speech.ts'

const REFRESH_SECONDS = 30
/** From here on the use of a limit is shown as close to it. */
const CLOSE = 0.8
/** So long nothing is typed before the server is asked. */
const SETTLED_MS = 150

const keysIn = (n: number): string => `${number(n)} ${SAY.plural(n, { one: 'key', other: 'keys' })}`
const nameOf = ({ label, prefix }: Key): string => (label === '' ? `${prefix}…` : label)

const usedOf = ({ left, quota }: Limit): number => 1 - left / quota

/** The limit of which most is used. */
function Tightest({ limits }: Pick<Key, 'limits'>) {
  const used = Math.max(...limits.map(usedOf))
  const limit = limits.find(each => usedOf(each) === used)
  if (!limit) return <span class="soft">unlimited</span>
  const { left, quota, reset } = limit
  const full = left < quota ? `, full again in ${countdown(reset)}` : ''
  return (
    <span class="tightest" title={`${number(left)} of ${number(quota)} left${full}`}>
      <span>
        <b>{share(used)}</b> {limitName(limit, SAY)}
      </span>
      <Level share={used} isLow={used >= CLOSE} />
    </span>
  )
}

type RowProps = { item: Key; isSelected: boolean; onSelect(isSelected: boolean): void }

function Row({ item, isSelected, onSelect }: RowProps) {
  const { id, prefix, label, note, plan, state, expires } = item
  const { requests_today, refused_today, last_seen, days, limits } = item
  return (
    <tr data-ended={state !== 'active' || undefined}>
      <td class="col-select">
        <CheckField
          label={<span class="hidden">{`Select ${nameOf(item)}`}</span>}
          name="selected"
          value={id}
          isOn={isSelected}
          onChange={onSelect}
        />
      </td>
      <th scope="row" class="col-label">
        <a href={keyHref(id)}>{label === '' ? <span class="soft">no label</span> : label}</a>
        <code>{prefix}…</code> <code class="id">{id}</code> <small>{note}</small>
      </th>
      <td class="col-plan">{plan ?? 'temporary'}</td>
      <td class="col-today number">{number(requests_today)}</td>
      <td class="col-days" title={`Requests of the last days: ${days.map(number).join(', ')}`}>
        <span class="hidden">{number(days.reduce((sum, each) => sum + each, 0))}</span>
        {days.some(Boolean) && <Spark values={days} />}
      </td>
      <td class="col-refused number" data-some={refused_today > 0 || undefined}>
        {number(refused_today)}
      </td>
      <td class="col-tightest">{state === 'active' && <Tightest limits={limits} />}</td>
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

/** The columns, and what they are sorted by. */
const COLUMNS = {
  ...{ label: 'Key', plan: 'Plan', today: 'Today', days: '14 days', refused: 'Refused' },
  ...{ tightest: 'Tightest limit', seen: 'Last seen', expires: 'Ends', state: 'State' },
}
const SORTED: readonly string[] = ['label', 'plan', 'today', 'seen', 'expires', 'state']
const isSort = (name: string): name is KeySort => SORTED.includes(name)
const NUMBERS = ['today', 'refused']

/** The columns, whose names are buttons that sort. */
function useColumns() {
  const { keyFilter: filter, setKeyFilter } = useConsole()
  const sortBy = (sort: KeySort): void => {
    const isDescending =
      filter.sort === sort ? !filter.isDescending : sort === 'today' || sort === 'seen'
    setKeyFilter({ ...filter, sort, isDescending, page: 1 })
  }
  const order = filter.isDescending ? 'descending' : 'ascending'
  return Object.entries(COLUMNS).map(([column, name]) => ({
    ...{ name, look: `col-${column}${NUMBERS.includes(column) ? ' number' : ''}` },
    more: { 'aria-sort': filter.sort === column ? order : undefined },
    head: isSort(column) ? (
      <button type="button" onClick={() => sortBy(column)}>
        {name}
      </button>
    ) : (
      name
    ),
  }))
}

type RowsProps = { page: KeyPage; selected: ReadonlySet<string>; onSelect(ids: string[]): void }

function Rows({ page: { keys, total }, selected, onSelect }: RowsProps) {
  const columns = useColumns()
  if (keys.length === 0) {
    const none = total > 0 ? 'No key matches.' : 'There is no key yet. Make the first one.'
    return <p class="empty">{none}</p>
  }
  const all = (
    <CheckField
      label={<span class="hidden">Select all of this page</span>}
      name="select-all"
      isOn={keys.every(({ id }) => selected.has(id))}
      onChange={isOn => onSelect(isOn ? keys.map(({ id }) => id) : [])}
    />
  )
  return (
    <Table
      caption="Keys"
      look="keys"
      columns={[{ name: 'Select', look: 'col-select', head: all }, ...columns]}
    >
      {keys.map(key => (
        <Row
          key={key.id}
          item={key}
          isSelected={selected.has(key.id)}
          onSelect={isOn => onSelect([...selected, key.id].filter(id => isOn || id !== key.id))}
        />
      ))}
    </Table>
  )
}

/** Which keys are shown of those that match, and the buttons to the others. */
function Pages({ page: { page, page_keys, matching, keys } }: { page: KeyPage }) {
  const { keyFilter, setKeyFilter } = useConsole()
  if (matching <= page_keys) return null
  const first = (page - 1) * page_keys
  const goTo = (page: number): void => {
    setKeyFilter({ ...keyFilter, page })
    scrollTo({ top: 0 })
  }
  return (
    <nav class="pages" aria-label="Pages of keys">
      <span class="soft">
        {number(first + 1)}–{number(first + keys.length)} of {number(matching)}
      </span>
      <button type="button" class="plain" disabled={page === 1} onClick={() => goTo(page - 1)}>
        Previous
      </button>
      <button
        type="button"
        class="plain"
        disabled={first + keys.length >= matching}
        onClick={() => goTo(page + 1)}
      >
        Next
      </button>
    </nav>
  )
}

/** What can be done with several keys. */
const SEVERAL = {
  extend: {
    ...{ name: 'Extend', done: 'extended', isDangerous: false },
    hint: 'Their end moves on by this time; that of an expired key is counted from now on.',
  },
  revoke: {
    ...{ name: 'Revoke', done: 'revoked', isDangerous: true },
    hint: 'They are refused from now on. This cannot be undone.',
  },
} as const

type SeveralProps = { keys: readonly Key[]; live: Live<KeyPage>; onDone(sentence: string): void }

/** The keys that are selected, and what can be done with them. */
function Several({ keys, live, onDone }: SeveralProps) {
  const { client } = useConsole()
  const [open, setOpen] = useState<keyof typeof SEVERAL | null>(null)
  const [ttl, setTtl] = useState('30d')
  const submit = async (name: keyof typeof SEVERAL): Promise<void> => {
    const { changed, unchanged } = await client.send<ChangedKeys>(
      'POST',
      `/console/selected-keys/${name}`,
      { ids: keys.map(({ id }) => id), ...(name === 'extend' && { ttl: ttl.trim() }) },
    )
    const why = unchanged.map(({ id, reason }) => {
      const key = keys.find(each => each.id === id)
      return `${key ? nameOf(key) : id} (${reason})`
    })
    const done = `${keysIn(changed.length)} ${SEVERAL[name].done}.`
    setOpen(null)
    onDone(why.length === 0 ? done : `${done} Not changed: ${why.join(', ')}.`)
    await live.refresh()
  }
  return (
    <fieldset class="card selection" aria-label="Selected keys">
      <span role="status">{keysIn(keys.length)} selected</span>
      <button type="button" class="plain" onClick={() => setOpen('extend')}>
        Extend
      </button>
      <button type="button" class="danger" onClick={() => setOpen('revoke')}>
        Revoke
      </button>
      {open !== null && (
        <FormDialog
          {...SEVERAL[open]}
          title={`${SEVERAL[open].name} ${keysIn(keys.length)}${open === 'revoke' ? '?' : ''}`}
          action={SEVERAL[open].name}
          onSubmit={() => submit(open)}
          onClose={() => setOpen(null)}
        >
          {open === 'extend' && (
            <TextField
              label="By"
              name="ttl"
              value={ttl}
              onChange={setTtl}
              hint="such as 24h or 30d"
            />
          )}
        </FormDialog>
      )}
    </fieldset>
  )
}

function Filters({ plans }: { plans: readonly Plan[] }) {
  const { keyFilter: filter, setKeyFilter } = useConsole()
  const set = (change: Partial<KeyFilter>): void => setKeyFilter({ ...filter, page: 1, ...change })
  const names = plans.map(({ name }) => name).filter(name => name !== 'demo')
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
        value={filter.plan}
        onChange={plan => set({ plan })}
        options={[
          ['', 'Any plan'],
          ...names.map(name => [name, name === TEMPORARY ? 'temporary' : name] as const),
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

type NewKeyProps = {
  plans: readonly Plan[]
  onClose(): void
  onSecret(secret: Secret): void
  live: Live<KeyPage>
}

function NewKeyDialog({ plans, live, onClose, onSecret }: NewKeyProps) {
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
    const body = { kind, label, note, ...rest }
    const making = client.send<MadeKey>('POST', '/console/keys', body)
    const secret = await secretOf(making, ({ key, ...item }) => {
      live.change(({ keys, total, matching, ...page }) => ({
        ...{ ...page, total: total + 1, matching: matching + 1, keys: [item, ...keys] },
      }))
      return { ...item, key }
    })
    onSecret(secret)
    onClose()
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

/** A value once it has not changed for a while. */
function useSettled<T>(value: T): T {
  const [settled, setSettled] = useState(value)
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), SETTLED_MS)
    return () => clearTimeout(timer)
  }, [value])
  return settled
}

const NONE: ReadonlySet<string> = new Set()

export function KeysView() {
  const { client, keyFilter } = useConsole()
  const path = pathOf({ ...keyFilter, search: useSettled(keyFilter.search) })
  const live = useLive<KeyPage>(client, path, REFRESH_SECONDS)
  const plans = usePlans().value?.plans ?? []
  const [isMaking, setMaking] = useState(false)
  const [secret, setSecret] = useState<Secret | null>(null)
  const [outcome, setOutcome] = useState('')
  /** Of one page alone: what is not seen is not changed. */
  const [selection, setSelection] = useState({ path, ids: NONE })
  const selected = selection.path === path ? selection.ids : NONE
  const keys = live.value?.keys.filter(({ id }) => selected.has(id)) ?? []
  return (
    <>
      <div class="bar-above">
        <Filters plans={plans} />
        <span class="soft" role="status">
          {live.value && `${number(live.value.matching)} of ${number(live.value.total)}`}
        </span>
        <button type="button" class="primary" onClick={() => setMaking(true)}>
          New key
        </button>
      </div>
      <LiveNotice live={live} />
      <p class="outcome" role="status">
        {outcome}
      </p>
      {live.value && (
        <section class="card table-card" aria-label="Keys">
          <Rows
            page={live.value}
            selected={selected}
            onSelect={ids => {
              setSelection({ path, ids: new Set(ids) })
              setOutcome('')
            }}
          />
          <Pages page={live.value} />
        </section>
      )}
      {keys.length > 0 && (
        <Several
          keys={keys}
          live={live}
          onDone={sentence => {
            setSelection({ path, ids: NONE })
            setOutcome(sentence)
          }}
        />
      )}
      {isMaking && (
        <NewKeyDialog {...{ plans, live, onSecret: setSecret }} onClose={() => setMaking(false)} />
      )}
      {secret !== null && <SecretDialog secret={secret} onClose={() => setSecret(null)} />}
    </>
  )
}
