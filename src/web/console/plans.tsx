/** The plans: their limits, and the dialogs that change them. */
import type { Plan } from '../../admin/api-types.ts'
import { TextField } from '../parts/form.tsx'
import { Table } from '../parts/table.tsx'
import { useConsole } from './context.ts'
import { type Action, Actions, FormDialog, LiveNotice, NewBar, useFields } from './dialog.tsx'
import { keysIn, number, UNKNOWN } from './format.ts'
import { type Live, useLive } from './live.ts'

const UNLIMITED = 'unlimited'

const LIMIT_WORDS = {
  burst: { name: 'Burst', hint: 'requests per time, such as 5/5s' },
  daily: { name: 'Per day', hint: 'requests per UTC day' },
  subnets: { name: 'Proxy networks', hint: '/16 networks of returned proxies per day' },
  clients: { name: 'Caller networks', hint: '/16 networks of callers per day' },
  count: { name: 'Records', hint: 'per answer' },
  downloads: { name: 'Long answers', hint: 'at once per key' },
} as const
type LimitName = keyof typeof LIMIT_WORDS
type PlanFields = { [limit in LimitName]: string }

const LIMITS = Object.keys(LIMIT_WORDS) as LimitName[] // of all limits

/** The plans `demo` and `temp` have no network limits. */
const limitsOf = (name: string): readonly LimitName[] =>
  name === 'demo' || name === 'temp'
    ? LIMITS.filter(limit => limit !== 'subnets' && limit !== 'clients')
    : LIMITS

/** The limits of a plan as `5/5s`, numbers, or `unlimited`. */
function fieldsOf({ burst, ...limits }: Plan): PlanFields {
  const texts = { ...limits, burst: burst && `${burst.requests}/${burst.seconds}s` }
  const fields = LIMITS.map(limit => [limit, String(texts[limit] ?? UNLIMITED)])
  return Object.fromEntries(fields) as PlanFields // of all limits
}

/** A new plan starts like the built-in `standard`. */
const STANDARD: PlanFields = {
  ...{ burst: '5/5s', daily: '34560', downloads: '4' },
  ...{ subnets: UNLIMITED, clients: UNLIMITED, count: UNLIMITED },
}

const REFRESH_SECONDS = 30

export const usePlans = () =>
  useLive<{ plans: Plan[] }>(useConsole().client, '/console/plans', REFRESH_SECONDS)

/** Sends a change of a plan, and updates the list. */
function useSend(live: ReturnType<typeof usePlans>) {
  const { client } = useConsole()
  return async (method: 'PUT' | 'DELETE', name: string, body: object): Promise<void> => {
    await client.send(method, `/console/plans/${encodeURIComponent(name)}`, body)
    await live.refresh()
  }
}

type DialogProps = { live: ReturnType<typeof usePlans>; onClose(): void }

function PlanDialog({ plan, live, onClose }: DialogProps & { plan: Plan | null }) {
  const send = useSend(live)
  const start = { name: plan?.name ?? '', ...(plan === null ? STANDARD : fieldsOf(plan)) }
  const [{ name, ...fields }, field] = useFields(start)
  const limits = limitsOf(name)
  const changes = Object.fromEntries(limits.map(limit => [limit, fields[limit].trim()]))
  return (
    <FormDialog
      title={plan === null ? 'New plan' : `Plan ${name}`}
      action={plan === null ? 'Create the plan' : 'Save'}
      onSubmit={() => send('PUT', name.trim(), changes)}
      onClose={onClose}
    >
      {plan === null && <TextField {...field('name')} label="Name" />}
      <p class="soft">Each limit is a number or “{UNLIMITED}”.</p>
      <div class="pairs">
        {limits.map(limit => (
          <TextField
            key={limit}
            {...field(limit)}
            label={LIMIT_WORDS[limit].name}
            hint={LIMIT_WORDS[limit].hint}
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

function Row({ plan, live }: { plan: Plan; live: Live<{ plans: Plan[] }> }) {
  const send = useSend(live)
  const { name, keys, enabled, built_in } = plan
  const whose = name === 'demo' ? 'the key demo' : `its ${keysIn(keys)}`
  const off: Action = {
    ...{ name: 'Turn off', isDanger: true },
    confirm: {
      title: `Turn off plan ${name}?`,
      hint: `The server refuses ${whose} until you turn it on again.`,
    },
    run: () => send('PUT', name, { enabled: 'off' }),
  }
  const remove: Action = {
    ...{ name: 'Remove', isDanger: true },
    confirm: { title: `Remove plan ${name}?`, hint: 'This cannot be undone.' },
    run: () => send('DELETE', name, {}),
  }
  const actions: Action[] = [
    { name: 'Edit', open: onClose => <PlanDialog {...{ plan, live, onClose }} /> },
    enabled ? off : { name: 'Turn on', run: () => send('PUT', name, { enabled: 'on' }) },
    ...(built_in ? [] : [remove]),
  ]
  return (
    <tr data-ended={!enabled || undefined}>
      <th scope="row">
        {name} {built_in && <small>built in</small>}
      </th>
      {LIMITS.map(limit => (
        <td key={limit} class="number" data-label={LIMIT_WORDS[limit].name}>
          <Limit plan={plan} limit={limit} />
        </td>
      ))}
      <td class="number" data-label="Keys">
        {name === 'demo' ? UNKNOWN : number(keys)}
      </td>
      <td data-label="State">
        <span class="status" data-ok={enabled || undefined}>
          {enabled ? 'on' : 'off'}
        </span>
      </td>
      <td class="col-actions">
        <Actions look="quiet" of={name} actions={actions} />
      </td>
    </tr>
  )
}

const COLUMNS = [
  'Name',
  ...Object.values(LIMIT_WORDS).map(({ name, hint }) => ({
    ...{ name, look: 'number', more: { title: hint } },
  })),
  { name: 'Keys', look: 'number' },
  'State',
  { name: 'Change', head: <span class="hidden">Change</span> },
]

export function PlansView() {
  const live = usePlans()
  return (
    <>
      <NewBar name="New plan" open={onClose => <PlanDialog plan={null} {...{ live, onClose }} />} />
      <LiveNotice live={live} />
      {live.value && (
        <section class="card table-card" aria-label="Plans">
          <Table caption="Plans" look="plans stack" columns={COLUMNS}>
            {live.value.plans.map(plan => (
              <Row key={plan.name} plan={plan} live={live} />
            ))}
          </Table>
        </section>
      )}
    </>
  )
}
