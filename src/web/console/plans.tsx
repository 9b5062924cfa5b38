/** Owns the plans: their limits, turning them off, removing them. */
import { useState } from 'preact/hooks'
import type { Plan } from '../../admin/wire.ts'
import { fill } from '../parts/speech.ts'
import { useConsole } from './context.ts'
import { FormDialog } from './dialog.tsx'
import { Alert, LiveNotice } from './notice.tsx'
import { fieldsOf, LIMITS, type LimitName, limitsOf, UNLIMITED } from './plan-fields.ts'
import { PlanDialog } from './plan-form.tsx'
import { usePlans } from './use-plans.ts'

type Open = { kind: 'edit' | 'disable' | 'remove'; plan: Plan } | { kind: 'new' } | null

/** A limit in words, `1,000` rather than `1000`. */
function Limit({ plan, limit }: { plan: Plan; limit: LimitName }) {
  const { words, number } = useConsole().speech
  if (!limitsOf(plan.name).includes(limit)) return <span class="soft">{words.unknown}</span>
  const text = fieldsOf(plan)[limit]
  if (text === UNLIMITED) return <span class="soft">{words.unlimited}</span>
  return <>{/^\d+$/.test(text) ? number(Number(text)) : text}</>
}

type RowProps = {
  plan: Plan
  onOpen(kind: 'edit' | 'disable' | 'remove'): void
  onEnable(): Promise<void>
}

function Row({ plan, onOpen, onEnable }: RowProps) {
  const { words, number } = useConsole().speech
  const { name, enabled } = plan
  return (
    <tr data-ended={!enabled || undefined}>
      <th scope="row">{name}</th>
      {LIMITS.map(limit => (
        <td key={limit} class="number" data-label={words[limit]}>
          <Limit plan={plan} limit={limit} />
        </td>
      ))}
      <td class="number" data-label={words.keys}>
        {name === 'demo' ? words.unknown : number(plan.keys)}
      </td>
      <td data-label={words.enabled}>
        <button
          type="button"
          role="switch"
          class="toggle"
          aria-checked={enabled}
          aria-label={`${words.enabled}: ${name}`}
          onClick={() => (enabled ? onOpen('disable') : onEnable())}
        >
          <span class="toggle-knob" />
        </button>
      </td>
      <td class="row-actions">
        <button type="button" class="quiet" onClick={() => onOpen('edit')}>
          {words.edit}
          <span class="hidden"> {name}</span>
        </button>
        <button type="button" class="quiet" onClick={() => onOpen('remove')}>
          {words.remove}
          <span class="hidden"> {name}</span>
        </button>
      </td>
    </tr>
  )
}

function Head() {
  const { words } = useConsole().speech
  return (
    <thead>
      <tr>
        <th scope="col">{words.name}</th>
        {LIMITS.map(limit => (
          <th scope="col" class="number" key={limit} title={words[`${limit}Hint`]}>
            {words[limit]}
          </th>
        ))}
        <th scope="col" class="number">
          {words.keys}
        </th>
        <th scope="col">{words.enabled}</th>
        <th scope="col">
          <span class="hidden">{words.change}</span>
        </th>
      </tr>
    </thead>
  )
}

const planPath = (name: string): string => `/console/plans/${encodeURIComponent(name)}`

export function PlansView() {
  const { client, speech } = useConsole()
  const { words, number } = speech
  const live = usePlans()
  const [open, setOpen] = useState<Open>(null)
  const [problem, setProblem] = useState<string | null>(null)
  const close = (): void => setOpen(null)
  const change = async (sent: Promise<unknown>): Promise<void> => {
    await sent
    setProblem(null)
    await live.refresh()
    setOpen(now => (now === open ? null : now)) // another dialog may have been opened meanwhile
  }
  const enable = (name: string): Promise<void> =>
    change(client.send('PUT', planPath(name), { enabled: true })).catch(error =>
      setProblem(error.message),
    )
  return (
    <>
      <div class="bar-above">
        <button type="button" class="primary" onClick={() => setOpen({ kind: 'new' })}>
          {words.newPlan}
        </button>
      </div>
      {problem && <Alert>{problem}</Alert>}
      <LiveNotice live={live} />
      {live.value && (
        <section class="card table-card" aria-label={words.plans}>
          <table class="plans stack">
            <caption class="hidden">{words.plans}</caption>
            <Head />
            <tbody>
              {live.value.plans.map(plan => (
                <Row
                  key={plan.name}
                  plan={plan}
                  onOpen={kind => setOpen({ kind, plan })}
                  onEnable={() => enable(plan.name)}
                />
              ))}
            </tbody>
          </table>
        </section>
      )}
      {(open?.kind === 'new' || open?.kind === 'edit') && (
        <PlanDialog
          plan={open.kind === 'edit' ? open.plan : null}
          onClose={close}
          onSave={(name, limits) => change(client.send('PUT', planPath(name), limits))}
        />
      )}
      {open?.kind === 'disable' && (
        <FormDialog
          title={fill(words.disableTitle, { name: open.plan.name })}
          hint={
            open.plan.name === 'demo'
              ? words.disableDemo
              : fill(words.disableHint, { n: number(open.plan.keys) })
          }
          action={words.disable}
          isDangerous
          onSubmit={() => change(client.send('PUT', planPath(open.plan.name), { enabled: false }))}
          onClose={close}
        />
      )}
      {open?.kind === 'remove' && (
        <FormDialog
          title={fill(words.removePlanTitle, { name: open.plan.name })}
          hint={words.removePlanHint}
          action={words.remove}
          isDangerous
          onSubmit={() => change(client.send('DELETE', planPath(open.plan.name)))}
          onClose={close}
        />
      )}
    </>
  )
}
