/** Owns a row of the list of keys, and how the state of a key is shown. */

import type { Key, KeyState } from '../../admin/wire.ts'
import { Use } from '../parts/amounts.tsx'
import { unixMs } from '../parts/clock.ts'
import { useConsole } from './context.ts'
import { keyHref } from './place.ts'

export function State({ state }: { state: KeyState }) {
  const { words } = useConsole().speech
  return (
    <span class="status" data-ok={state === 'active' || undefined}>
      {words[state]}
    </span>
  )
}

export function KeyRow({ item }: { item: Key }) {
  const { words, number, relative, dateOf, moment } = useConsole().speech
  const { id, prefix, label, plan, state, expires, requests_today, daily_limit, last_seen } = item
  const hasEnded = state === 'revoked' || state === 'expired'
  const used = number(requests_today)
  return (
    <tr data-ended={hasEnded || undefined}>
      <th scope="row" class="col-label">
        <a href={keyHref(id)}>{label === '' ? <span class="soft">{words.noLabel}</span> : label}</a>
        <code>{prefix}…</code> <code class="id">{id}</code>
      </th>
      <td class="col-plan">{plan ?? words.temporary}</td>
      <td class="col-today">
        <Use used={requests_today} limit={daily_limit} />
        <span class="number">
          {used}
          {daily_limit !== null && <small> / {number(daily_limit)}</small>}
        </span>
      </td>
      <td class="col-seen">
        {last_seen === null ? (
          <span class="soft">{words.unknown}</span>
        ) : (
          <time dateTime={last_seen} title={moment(last_seen)}>
            {relative(last_seen, unixMs())}
          </time>
        )}
      </td>
      <td class="col-expires">
        {expires === null ? (
          <span class="soft">{words.never}</span>
        ) : (
          <time dateTime={expires} title={moment(expires)}>
            {dateOf(expires)}
          </time>
        )}
      </td>
      <td class="col-state">
        <State state={state} />
      </td>
    </tr>
  )
}
