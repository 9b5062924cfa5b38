/** The list of keys with pages, search and order, and the dialog that creates a key. */
import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import type { Key, KeyPage, KeySort, Limit, NewSecret } from '../../admin/api-types.ts'
import { Radios, SelectField, TextField, useSettled } from '../parts/form.tsx'
import { Levels, State } from '../parts/key.tsx'
import { Table } from '../parts/table.tsx'
import { keyHref } from './address.ts'
import { useConsole } from './context.ts'
import { FormDialog, LiveNotice, NewBar, useFields, When } from './dialog.tsx'
import { ago, dateOf, number, SAY } from './format.ts'
import { pathOf } from './key-filter.ts'
import { type Live, useLive } from './live.ts'
import { usePlans } from './plans.tsx'
import { type Secret, SecretDialog } from './secret.tsx'

const REFRESH_SECONDS = 30
/** The pause in typing after which the search is sent. */
const SETTLED_MS = 150

/** The share of a limit that is left. */
const leftOf = ({ left, quota }: Limit): number => (quota === 0 ? 0 : left / quota)

function Tightest({ limits }: Pick<Key, 'limits'>) {
  const [tightest] = limits.toSorted((a, b) => leftOf(a) - leftOf(b))
  if (tightest === undefined) return <span class="soft">unlimited</span>
  return <Levels limits={[tightest]} say={SAY} />
}

function Row({ item }: { item: Key }) {
  const { id, prefix, label, note, plan, state, expires } = item
  const { requests_today, refused_today, last_seen, limits } = item
  return (
    <tr data-ended={state !== 'active' || undefined}>
      <th scope="row" class="col-label">
        <a href={keyHref(id)}>{label === '' ? <span class="soft">no label</span> : label}</a>
        <code>{prefix}…</code> <code class="id">{id}</code> <small>{note}</small>
      </th>
      <td class="col-plan">{plan ?? 'temporary'}</td>
      <td class="col-today number">{number(requests_today)}</td>
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

const COLUMNS = {
  ...{ label: 'Key', plan: 'Plan', today: 'Today', refused: 'Refused' },
  ...{ tightest: 'Tightest limit', seen: 'Last seen', expires: 'Ends', state: 'State' },
}
const SORTED: readonly string[] = ['label', 'today', 'expires']
const isSort = (name: string): name is KeySort => SORTED.includes(name)
const NUMBERS = ['today', 'refused']

/** The columns. Sortable ones have a button in their head. */
function useColumns() {
  const { keyFilter: filter, setKeyFilter } = useConsole()
  const sortBy = (sort: KeySort): void => {
    const isDescending = filter.sort === sort ? !filter.isDescending : sort === 'today'
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

function Rows({ page: { keys, total } }: { page: KeyPage }) {
  const columns = useColumns()
  if (keys.length === 0) {
    const none = total > 0 ? 'No key matches.' : 'There are no keys yet. Add the first one.'
    return <p class="empty">{none}</p>
  }
  return (
    <Table caption="Keys" look="keys" columns={columns}>
      {keys.map(key => (
        <Row key={key.id} item={key} />
      ))}
    </Table>
  )
}

/** The current page, and the buttons to the others. */
function Pages({ page: { page, page_keys, matching, keys } }: { page: KeyPage }) {
  const { keyFilter, setKeyFilter } = useConsole()
  if (matching <= page_keys) return null
  const first = (page - 1) * page_keys
  const button = (name: string, page: number, isOff: boolean) => (
    <button
      type="button"
      class="plain"
      disabled={isOff}
      onClick={() => {
        setKeyFilter({ ...keyFilter, page })
        scrollTo({ top: 0 })
      }}
    >
      {name}
    </button>
  )
  return (
    <nav class="row pages" aria-label="Pages of keys">
      <span class="soft">
        {number(first + 1)}–{number(first + keys.length)} of {number(matching)}
      </span>
      {button('Previous', page - 1, page === 1)}
      {button('Next', page + 1, first + keys.length >= matching)}
    </nav>
  )
}

function Filters() {
  const { keyFilter: filter, setKeyFilter } = useConsole()
  return (
    <search class="row key-filters">
      <input
        type="search"
        name="search"
        aria-label="Search"
        placeholder="Label, note, id, plan, state"
        value={filter.search}
        onInput={event => setKeyFilter({ ...filter, search: event.currentTarget.value, page: 1 })}
      />
    </search>
  )
}

type KeyFieldsProps = {
  field(name: 'label' | 'note' | 'from' | 'plan'): Omit<Parameters<typeof TextField>[0], 'label'>
  /** Whether the key has a plan: temporary keys have none. */
  hasPlan: boolean
  children?: ComponentChildren
}

/** The fields of new and existing keys. */
export function KeyFields({ field, hasPlan, children }: KeyFieldsProps) {
  const plans = usePlans().value?.plans ?? []
  const names = plans.map(({ name }) => name).filter(name => name !== 'demo' && name !== 'temp')
  return (
    <>
      <TextField {...field('label')} label="Label" hint="the customer sees it" />
      <TextField {...field('note')} label="Note" hint="only you see it" />
      <TextField
        {...field('from')}
        label="Only from"
        hint="203.0.113.0/24, or empty for all addresses"
      />
      {children}
      {hasPlan && (
        <SelectField {...field('plan')} label="Plan" options={names.map(name => [name, name])} />
      )}
    </>
  )
}

export const EXPIRES = { label: 'Expires', hint: '30d, 2027-01-31, or empty for never' }

function NewKeyDialog({ live, onClose }: { live: Live<KeyPage>; onClose(): void }) {
  const { client } = useConsole()
  const [kind, setKind] = useState<'regular' | 'temp'>('regular')
  const start = { label: '', note: '', from: '', plan: 'standard', expires: '', ttl: '24h' }
  const [{ label, note, from, plan, expires, ttl }, field] = useFields(start)
  const [secret, setSecret] = useState<Secret | null>(null)
  if (secret !== null) return <SecretDialog secret={secret} onClose={onClose} />
  const isTemporary = kind === 'temp'
  const submit = async () => {
    const end = expires.trim()
    const rest = isTemporary ? { ttl: ttl.trim() } : { plan, ...(end && { expires: end }) }
    const body = { kind, label, note, from, ...rest }
    setSecret(await client.send<NewSecret>('POST', '/console/keys', body))
    void live.refresh()
    return 'stays'
  }
  return (
    <FormDialog title="New key" action="Create the key" onSubmit={submit} onClose={onClose}>
      <KeyFields field={field} hasPlan={!isTemporary}>
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
              ? 'a trial with the limits of plan temp; it expires by itself'
              : 'for a customer, until it is revoked or expires'}
          </small>
        </div>
      </KeyFields>
      {isTemporary ? (
        <TextField {...field('ttl')} label="Valid for" hint="such as 1h or 24h" />
      ) : (
        <TextField {...field('expires')} {...EXPIRES} />
      )}
    </FormDialog>
  )
}

export function KeysView() {
  const { client, keyFilter } = useConsole()
  const [search, setSearch] = useState(keyFilter.search)
  useSettled(keyFilter.search, SETTLED_MS, setSearch)
  const live = useLive<KeyPage>(client, pathOf({ ...keyFilter, search }), REFRESH_SECONDS)
  return (
    <>
      <NewBar name="New key" open={onClose => <NewKeyDialog {...{ live, onClose }} />}>
        <Filters />
        <span class="soft" role="status">
          {live.value && `${number(live.value.matching)} of ${number(live.value.total)}`}
        </span>
      </NewBar>
      <LiveNotice live={live} />
      {live.value && (
        <section class="card table-card" aria-label="Keys">
          <Rows page={live.value} />
          <Pages page={live.value} />
        </section>
      )}
    </>
  )
}
