/** One key: what is known of it, and what can be done with it. */
import { useState } from 'preact/hooks'
import type { KeyReport, RotatedKey } from '../../admin/wire.ts'
import { Bars } from '../parts/amounts.tsx'
import { unixMs } from '../parts/browser.ts'
import { SelectField } from '../parts/form.tsx'
import { About, DayUse, Limits } from '../parts/key.tsx'
import { Card, Table } from '../parts/table.tsx'
import { daysUntil } from './chart-data.ts'
import { useConsole } from './context.ts'
import { FormDialog, LiveNotice, type Secret, SecretDialog, secretOf } from './dialog.tsx'
import { ExpiresField, LabelField, NoteField, PlanField } from './keys.tsx'
import { type Live, useLive } from './live.ts'
import { KeyLog } from './log.tsx'
import { usePlans } from './plans.tsx'
import { ago, dayOf, moment, number, SAY, unit } from './speech.ts'

const REFRESH_SECONDS = 10

const factsOf = ({ note, plan, created, expires, last_seen, old_secrets_until }: KeyReport) => [
  ...(note === '' ? [] : [['Note', note] as const]),
  ['Plan', plan === 'temp' ? 'temporary' : plan] as const,
  ['Created', moment(created)] as const,
  ['Ends', expires === null ? 'never' : moment(expires)] as const,
  ['Last seen', last_seen === null ? 'not in 90 days' : ago(last_seen)] as const,
  ...(old_secrets_until.length === 0
    ? []
    : [['Old key', `works until ${old_secrets_until.map(moment).join(', ')}`] as const]),
]

const COUNTED = [
  ['Requests', 'requests'],
  ['Records', 'records'],
  ['Refused', 'refused'],
] as const
const DAY_COLUMNS = ['Day', ...COUNTED.map(([name]) => ({ name, look: 'number' }))]

function Days({ report }: { report: KeyReport }) {
  const days = daysUntil(unixMs(), report.days)
  return (
    <Card look="wide" title="Use by day" hint="last 90 days, UTC">
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

type DialogProps = {
  report: KeyReport
  onClose(): void
  onChanged(report: KeyReport): void
}

function ChangeDialog({ report, onClose, onChanged }: DialogProps) {
  const { client } = useConsole()
  const plans = usePlans().value?.plans ?? []
  const [label, setLabel] = useState(report.label)
  const [note, setNote] = useState(report.note)
  const [plan, setPlan] = useState(report.plan)
  const [expires, setExpires] = useState(report.expires ?? '')
  const submit = async (): Promise<void> => {
    const end = expires.trim()
    const changes = {
      ...(label !== report.label && { label }),
      ...(note !== report.note && { note }),
      ...(plan !== report.plan && { plan }),
      ...(end !== (report.expires ?? '') && { expires: end === '' ? null : end }),
    }
    if (Object.keys(changes).length === 0) return onClose()
    onChanged(await client.send<KeyReport>('POST', `/console/keys/${report.id}`, changes))
  }
  return (
    <FormDialog title="Change the key" action="Save" onSubmit={submit} onClose={onClose}>
      <LabelField value={label} onChange={setLabel} />
      <NoteField value={note} onChange={setNote} />
      {report.plan !== 'temp' && <PlanField plans={plans} value={plan} onChange={setPlan} />}
      <ExpiresField value={expires} onChange={setExpires} />
    </FormDialog>
  )
}

const OVERLAPS = [
  ['0s', 'it ends at once'],
  ['1h', unit(1, 'hour')],
  ['24h', unit(24, 'hour')],
  ['7d', unit(7, 'day')],
] as const

function RotateDialog(props: DialogProps & { onSecret(secret: Secret): void }) {
  const { report, onClose, onChanged, onSecret } = props
  const { client } = useConsole()
  const [overlap, setOverlap] = useState<string>('24h')
  const path = `/console/keys/${report.id}/rotate`
  const submit = async (): Promise<void> => {
    const rotating = client.send<RotatedKey>('POST', path, { overlap })
    const secret = await secretOf(rotating, ({ report, key, overlap_until: until }) => {
      onChanged(report)
      const hint =
        until === null
          ? 'The old key no longer works.'
          : `The old key works until ${moment(until)}.`
      return { ...report, key, hint }
    })
    onSecret(secret)
    onClose()
  }
  return (
    <FormDialog
      title="Rotate the key"
      hint="A new key with the same id, plan and limits. The old one works for a while longer."
      action="Rotate"
      onSubmit={submit}
      onClose={onClose}
    >
      <SelectField
        label="The old key works for"
        name="overlap"
        value={overlap}
        onChange={setOverlap}
        options={OVERLAPS}
      />
    </FormDialog>
  )
}

/** What can be done with a key; an action with a title is confirmed and needs nothing else. */
const ACTIONS = {
  change: { name: 'Change' },
  rotate: { name: 'Rotate' },
  reset: {
    name: 'Reset',
    title: 'Reset the limits?',
    hint: 'Its windows and its day are unused again. Its history stays.',
  },
  revoke: {
    name: 'Revoke',
    title: 'Revoke this key?',
    hint: 'It is refused from now on. This cannot be undone.',
  },
  remove: {
    name: 'Remove',
    title: 'Remove this key?',
    hint: 'The key and its history are deleted. This cannot be undone.',
  },
} as const
type Action = keyof typeof ACTIONS

/** A key that has ended cannot be used again; only one that was revoked can be removed. */
const actionsOf = ({ state }: KeyReport): readonly Action[] =>
  state === 'revoked' ? ['remove'] : ['change', 'rotate', 'reset', 'revoke']

/** What can be done with a key. What cannot be undone is confirmed first. */
function Actions({ live, report }: { live: Live<KeyReport>; report: KeyReport }) {
  const { client } = useConsole()
  const [open, setOpen] = useState<Action | null>(null)
  const [secret, setSecret] = useState<Secret | null>(null)
  const onClose = (): void => setOpen(null)
  const onChanged = (changed: KeyReport): void => {
    live.change(() => changed)
    setOpen(now => (now === open ? null : now)) // another dialog may have been opened meanwhile
  }
  const confirm = async (action: Action): Promise<void> => {
    const path = `/console/keys/${report.id}`
    if (action !== 'remove') return onChanged(await client.send('POST', `${path}/${action}`))
    await client.send('DELETE', path)
    location.hash = '#keys'
  }
  return (
    <div class="key-actions">
      {actionsOf(report).map(action => (
        <button
          type="button"
          key={action}
          class={action === 'revoke' || action === 'remove' ? 'danger' : 'plain'}
          onClick={() => setOpen(action)}
        >
          {ACTIONS[action].name}
        </button>
      ))}
      {open === 'change' && <ChangeDialog {...{ report, onClose, onChanged }} />}
      {open === 'rotate' && (
        <RotateDialog {...{ report, onClose, onChanged, onSecret: setSecret }} />
      )}
      {(open === 'reset' || open === 'revoke' || open === 'remove') && (
        <FormDialog
          {...ACTIONS[open]}
          action={ACTIONS[open].name}
          isDangerous={open !== 'reset'}
          onSubmit={() => confirm(open)}
          onClose={onClose}
        />
      )}
      {secret !== null && <SecretDialog secret={secret} onClose={() => setSecret(null)} />}
    </div>
  )
}

export function KeyView({ id }: { id: string }) {
  const { client } = useConsole()
  const live = useLive<KeyReport>(client, `/console/keys/${id}`, REFRESH_SECONDS)
  const report = live.value
  return (
    <>
      <a class="quiet" href="#keys">
        ← All keys
      </a>
      <LiveNotice live={live} />
      {report && (
        <>
          <About
            name={report.label === '' ? 'no label' : report.label}
            ids={<code>{`${report.prefix}… ${report.id}`}</code>}
            state={report.state}
            facts={factsOf(report)}
            say={SAY}
          >
            <Actions live={live} report={report} />
          </About>
          <div class="charts">
            <Limits limits={report.limits} say={SAY} />
            <DayUse today={report.today} say={SAY} />
            <Days report={report} />
            <KeyLog id={id} />
          </div>
        </>
      )}
    </>
  )
}
