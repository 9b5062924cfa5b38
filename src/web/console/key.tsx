/** One key: its facts, limits, use, and actions. */
import type { VNode } from 'preact'
import { useState } from 'preact/hooks'
import type { KeyReport, NewSecret } from '../../admin/api-types.ts'
import { Bars } from '../parts/amounts.tsx'
import { unixMs } from '../parts/browser.ts'
import { SelectField, TextField } from '../parts/form.tsx'
import { About, DayUse, Limits } from '../parts/key.tsx'
import { Card, Table } from '../parts/table.tsx'
import { daysUntil } from './chart-data.ts'
import { useConsole } from './context.ts'
import { type Action, Actions, FormDialog, LiveNotice, useFields, When } from './dialog.tsx'
import { ago, dayOf, moment, number, SAY, unit } from './format.ts'
import { EXPIRES, KeyFields } from './keys.tsx'
import { type Live, useLive } from './live.ts'
import { logHref } from './log-lines.ts'
import { type Secret, SecretDialog } from './secret.tsx'

const REFRESH_SECONDS = 10

const factsOf = ({ note, from, plan, created, expires, ...rest }: KeyReport) =>
  [
    ['Note', note],
    ['Only from', from],
    ['Plan', plan === 'temp' ? 'temporary' : plan],
    ['Created', <When time={created} show={moment} />],
    ['Ends', <When time={expires} none="never" show={moment} />],
    ['Last seen', <When time={rest.last_seen} none="never, or over 90 days ago" show={ago} />],
    ['Old key works until', rest.old_secrets_until.map(moment).join(', ')],
  ].filter((fact): fact is [string, string | VNode] => fact[1] !== '')

const COUNTED = [
  ['Requests', 'requests'],
  ['Records', 'records'],
  ['Refused', 'refused'],
] as const
const DAY_COLUMNS = ['Day', ...COUNTED.map(([name]) => ({ name, look: 'number' }))]

function Days({ report }: { report: KeyReport }) {
  const days = daysUntil(unixMs(), report.days)
  return (
    <Card look="wide" title="Use by day" hint={`UTC, last ${days.length} days`}>
      <Bars
        label="Use by day"
        values={days.map(({ requests }) => requests)}
        names={days.map(({ day }) => dayOf(day))}
        show={number}
      />
      <details>
        <summary>As a table</summary>
        <Table columns={DAY_COLUMNS}>
          {days.toReversed().map(day => (
            <tr key={day.day}>
              <th scope="row">{day.day}</th>
              {COUNTED.map(([name, count]) => (
                <td key={name} class="number">
                  {number(day[count])}
                </td>
              ))}
            </tr>
          ))}
        </Table>
      </details>
    </Card>
  )
}

type DialogProps = { report: KeyReport; live: Live<KeyReport>; onClose(): void }

function ChangeDialog({ report, live, onClose }: DialogProps) {
  const { client } = useConsole()
  const { id, label, note, from, plan, expires: end } = report
  const [{ expires, ...values }, field] = useFields({ label, note, from, plan, expires: end ?? '' })
  const isTemporary = plan === 'temp'
  const submit = async (): Promise<void> => {
    await client.send('POST', `/console/keys/${id}`, {
      ...values,
      ...(isTemporary && { plan: undefined }),
      // The end of an expired key lies in the past, which a change may not set.
      ...(expires !== (end ?? '') && { expires: expires.trim() || 'never' }),
    })
    await live.refresh()
  }
  return (
    <FormDialog title="Change the key" action="Save" onSubmit={submit} onClose={onClose}>
      <KeyFields field={field} hasPlan={!isTemporary} />
      <TextField {...field('expires')} {...EXPIRES} />
    </FormDialog>
  )
}

const OVERLAPS = [
  ['0s', 'it ends at once'],
  ['1h', unit(1, 'hour')],
  ['24h', unit(24, 'hour')],
  ['7d', unit(7, 'day')],
] as const

function RotateDialog({ report, live, onClose }: DialogProps) {
  const { client } = useConsole()
  const [{ overlap }, field] = useFields({ overlap: '24h' })
  const [secret, setSecret] = useState<Secret | null>(null)
  if (secret !== null) return <SecretDialog secret={secret} onClose={onClose} />
  const submit = async () => {
    const path = `/console/keys/${report.id}/rotate`
    const { key, overlap_until: until } = await client.send<NewSecret>('POST', path, { overlap })
    setSecret({ key, hint: `The old key ${until ? `works until ${moment(until)}` : 'has ended'}.` })
    void live.refresh()
    return 'stays'
  }
  return (
    <FormDialog
      title={`Rotate key ${nameOf(report)}?`}
      hint="The new key has the same id, plan and limits. The old key ends after the time below."
      action="Rotate"
      isDanger
      onSubmit={submit}
      onClose={onClose}
    >
      <SelectField {...field('overlap')} label="The old key works for" options={OVERLAPS} />
    </FormDialog>
  )
}

const nameOf = ({ label, id }: KeyReport): string => (label === '' ? id : `${label} (${id})`)

/** An expired or revoked key never works again. Only a revoked key can be removed. */
function KeyActions({ live, report }: { live: Live<KeyReport>; report: KeyReport }) {
  const { client } = useConsole()
  const path = `/console/keys/${report.id}`
  const name = nameOf(report)
  const send = async (action: 'reset' | 'revoke'): Promise<void> => {
    await client.send('POST', `${path}/${action}`)
    await live.refresh()
  }
  const reset: Action = {
    name: 'Reset limits',
    confirm: {
      title: `Reset the limits of key ${name}?`,
      hint: 'Resets the windows and today’s count. The history stays.',
    },
    run: () => send('reset'),
  }
  const revoke: Action = {
    ...{ name: 'Revoke', isDanger: true },
    confirm: {
      title: `Revoke key ${name}?`,
      hint: 'The server refuses the key from now on. This cannot be undone.',
    },
    run: () => send('revoke'),
  }
  const remove: Action = {
    ...{ name: 'Remove', isDanger: true },
    confirm: {
      title: `Remove key ${name}?`,
      hint: 'Deletes the key and its history. This cannot be undone.',
    },
    async run() {
      await client.send('DELETE', path)
      location.hash = '#keys'
    },
  }
  const actions: Action[] = [
    { name: 'Change', open: onClose => <ChangeDialog {...{ report, live, onClose }} /> },
    {
      ...{ name: 'Rotate', isDanger: true },
      open: onClose => <RotateDialog {...{ report, live, onClose }} />,
    },
    ...[reset, revoke],
  ]
  return <Actions look="plain" actions={report.state === 'revoked' ? [remove] : actions} />
}

export function KeyView({ id }: { id: string }) {
  const { client } = useConsole()
  const live = useLive<KeyReport>(client, `/console/keys/${id}`, REFRESH_SECONDS)
  const report = live.value
  return (
    <>
      <p class="row bar-above">
        <a class="quiet" href="#keys">
          ← All keys
        </a>
        <a class="quiet" href={logHref({ key: id })}>
          Requests in the log
        </a>
      </p>
      <LiveNotice live={live} />
      {report && (
        <>
          <About
            name={report.label === '' ? 'no label' : report.label}
            ids={`${report.prefix}… ${report.id}`}
            state={report.state}
            facts={factsOf(report)}
            say={SAY}
          >
            <KeyActions live={live} report={report} />
          </About>
          <div class="charts">
            <Limits limits={report.limits} say={SAY} />
            <DayUse today={report.today} say={SAY} />
            <Days report={report} />
          </div>
        </>
      )}
    </>
  )
}
