/** The plans: their limits, making, changing, turning off, removing them. */
import { useState } from 'preact/hooks'
import type { Plan } from '../../admin/wire.ts'
import { CheckField, TextField } from '../parts/form.tsx'
import { Table } from '../parts/table.tsx'
import { useConsole } from './context.ts'
import { Alert, FormDialog, LiveNotice } from './dialog.tsx'
import { useLive } from './live.ts'
import {
  changesOf,
  fieldsOf,
  LIMIT_WORDS,
  LIMITS,
  type LimitName,
  limitsOf,
  STANDARD,
  UNLIMITED,
} from './plan-fields.ts'
import { number, UNKNOWN } from './speech.ts'

const REFRESH_SECONDS = 30

/** The plans, to be shown or chosen from. */
export const usePlans = () =>
  useLive<{ plans: Plan[] }>(useConsole().client, '/console/plans', REFRESH_SECONDS)

type PlanDialogProps = {
  /** `null`: a new one. */
  plan: Plan | null
  onSave(name: string, limits: { [limit: string]: string }): Promise<void>
  onClose(): void
}

function PlanDialog({ plan, onSave, onClose }: PlanDialogProps) {
  const [name, setName] = useState(plan?.name ?? '')
  const before = plan === null ? null : fieldsOf(plan)
  const [fields, setFields] = useState(before ?? STANDARD)
  const limits = limitsOf(name)
  return (
    <FormDialog
      title={plan === null ? 'New plan' : `Plan ${name}`}
      hint="A number, or unlimited."
      action={plan === null ? 'Make the plan' : 'Save'}
      onSubmit={() => onSave(name.trim(), changesOf(before, fields, limits))}
      onClose={onClose}
    >
      {plan === null && <TextField label="Name" name="name" value={name} onChange={setName} />}
      <div class="pairs">
        {limits.map(limit => (
          <TextField
            key={limit}
            label={LIMIT_WORDS[limit].name}
            name={limit}
            value={fields[limit]}
            hint={LIMIT_WORDS[limit].hint}
            onChange={value => setFields({ ...fields, [limit]: value })}
          />
        ))}
      </div>
    </FormDialog>
  )
}

/** A limit in words, `1,000` rather than `1000`. */
function Limit({ plan, limit }: { plan: Plan; limit: LimitName }) {
  if (!limitsOf(plan.name).includes(limit)) return <span class="soft">{UNKNOWN}</span>
  const text = fieldsOf(plan)[limit]
  if (text === UNLIMITED) return <span class="soft">{text}</span>
  return <>{/^\d+$/.test(text) ? number(Number(text)) : text}</>
}

type RowProps = {
  plan: Plan
  onOpen(kind: 'edit' | 'disable' | 'remove'): void
  onEnable(): void
}

const Row = ({ plan, onOpen, onEnable }: RowProps) => (
  <tr data-ended={!plan.enabled || undefined}>
    <th scope="row">{plan.name}</th>
    {LIMITS.map(limit => (
      <td key={limit} class="number" data-label={LIMIT_WORDS[limit].name}>
        <Limit plan={plan} limit={limit} />
      </td>
    ))}
    <td class="number" data-label="Keys">
      {plan.name === 'demo' ? UNKNOWN : number(plan.keys)}
    </td>
    <td data-label="Enabled">
      <CheckField
        label={<span class="hidden">Enabled: {plan.name}</span>}
        name="enabled"
        value={plan.name}
        isOn={plan.enabled}
        onChange={isOn => (isOn ? onEnable() : onOpen('disable'))}
      />
    </td>
    <td class="row-actions">
      <button type="button" class="quiet" onClick={() => onOpen('edit')}>
        Edit<span class="hidden"> {plan.name}</span>
      </button>
      <button type="button" class="quiet" onClick={() => onOpen('remove')}>
        Remove<span class="hidden"> {plan.name}</span>
      </button>
    </td>
  </tr>
)

const COLUMNS = [
  'Name',
  ...Object.values(LIMIT_WORDS).map(({ name, hint }) => ({
    ...{ name, look: 'number', more: { title: hint } },
  })),
  { name: 'Keys', look: 'number' },
  'Enabled',
  { name: 'Change', head: <span class="hidden">Change</span> },
]

type Open = { kind: 'edit' | 'disable' | 'remove'; plan: Plan } | { kind: 'new' } | null

export function PlansView() {
  const { client } = useConsole()
  const live = usePlans()
  const [open, setOpen] = useState<Open>(null)
  const [problem, setProblem] = useState<string | null>(null)
  const close = (): void => setOpen(null)
  /** Sends a change of a plan, and puts what it is now into the list. */
  const send = async (method: 'PUT' | 'DELETE', name: string, body: object): Promise<void> => {
    const changed = await client.send<Plan>(
      method,
      `/console/plans/${encodeURIComponent(name)}`,
      body,
    )
    setProblem(null)
    live.change(({ plans }) => {
      const others = plans.filter(plan => plan.name !== name)
      const now = method === 'DELETE' ? others : [...others, changed]
      return { plans: now.sort((a, b) => (a.name < b.name ? -1 : 1)) }
    })
    setOpen(now => (now === open ? null : now)) // another dialog may have been opened meanwhile
  }
  return (
    <>
      <div class="bar-above">
        <button type="button" class="primary" onClick={() => setOpen({ kind: 'new' })}>
          New plan
        </button>
      </div>
      {problem && <Alert>{problem}</Alert>}
      <LiveNotice live={live} />
      {live.value && (
        <section class="card table-card" aria-label="Plans">
          <Table caption="Plans" look="plans stack" columns={COLUMNS}>
            {live.value.plans.map(plan => (
              <Row
                key={plan.name}
                plan={plan}
                onOpen={kind => setOpen({ kind, plan })}
                onEnable={() => {
                  setProblem(null)
                  send('PUT', plan.name, { enabled: true }).catch(e => setProblem(e.message))
                }}
              />
            ))}
          </Table>
        </section>
      )}
      {(open?.kind === 'new' || open?.kind === 'edit') && (
        <PlanDialog
          plan={open.kind === 'edit' ? open.plan : null}
          onClose={close}
          onSave={(name, limits) => send('PUT', name, limits)}
        />
      )}
      {open?.kind === 'disable' && (
        <FormDialog
          title={`Turn off plan ${open.plan.name}?`}
          hint={
            open.plan.name === 'demo'
              ? 'The key demo is refused until it is turned on again.'
              : `All ${number(open.plan.keys)} keys with this plan are refused until it is turned on again.`
          }
          action="Turn off"
          isDangerous
          onSubmit={() => send('PUT', open.plan.name, { enabled: false })}
          onClose={close}
        />
      )}
      {open?.kind === 'remove' && (
        <FormDialog
          title={`Remove plan ${open.plan.name}?`}
          hint="A plan that keys have cannot be removed."
          action="Remove"
          isDangerous
          onSubmit={() => send('DELETE', open.plan.name, {})}
          onClose={close}
        />
      )}
    </>
  )
}
