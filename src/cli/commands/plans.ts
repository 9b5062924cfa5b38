/** The `plans` commands. */
import * as manage from '../../access/manage.ts'
import type { Plan } from '../../access/plan.ts'
import { requirePlanName } from '../../config/parsers.ts'
import { storesOf } from '../../stores.ts'
import { command, DATA_SETTINGS, printJson, say, show } from '../command.ts'

const UNLIMITED = 'unlimited'

/** A plan as the command line shows it; in JSON numbers stay numbers. */
const describe = ({ name, burst, daily, subnets, clients, count, downloads, enabled }: Plan) => ({
  name,
  burst: burst ? `${burst.requests}/${burst.seconds}s` : UNLIMITED,
  daily: daily ?? UNLIMITED,
  subnets: subnets ?? UNLIMITED,
  clients: clients ?? UNLIMITED,
  count: count ?? UNLIMITED,
  downloads: downloads ?? UNLIMITED,
  enabled,
})

type Described = ReturnType<typeof describe>

const inWords = (value: string | number | boolean): string =>
  typeof value === 'boolean' ? (value ? 'on' : 'off') : String(value)

const listPlans = command({
  name: 'plans list',
  summary: 'list the plans and their limits',
  settings: [...DATA_SETTINGS, 'json'],
  example: 'proxylist plans list',
  async run({ settings, clock }) {
    const stores = storesOf(settings, clock)
    const plans = (await stores.registry('read', registry => registry.plans.list())).map(describe)
    const cell = (name: keyof Described) => (plan: Described) => inWords(plan[name])
    await show(settings.json, plans, {
      NAME: cell('name'),
      BURST: cell('burst'),
      DAILY: cell('daily'),
      SUBNETS: cell('subnets'),
      CLIENTS: cell('clients'),
      COUNT: cell('count'),
      DOWNLOADS: cell('downloads'),
      ENABLED: cell('enabled'),
    })
  },
})

const setPlan = command({
  name: 'plans set',
  summary: 'change a plan, or create one from the built-in standard',
  arguments: '<name>',
  settings: [
    ...([...DATA_SETTINGS, 'json'] as const),
    ...(['burst', 'daily', 'subnets', 'clients', 'count', 'downloads', 'enabled'] as const),
  ],
  example: 'proxylist plans set small --burst 2/5s --daily 1000 --subnets 10 --count 100',
  async run({ settings, args: [name = ''], clock }) {
    const { data, database, databaseTimeout, json, enabled, ...limits } = settings
    requirePlanName(name, 'NAME')
    const changes = Object.fromEntries(
      Object.entries({
        ...limits,
        ...(enabled !== undefined && { enabled: enabled === 'on' }),
      }).filter(([, limit]) => limit !== undefined),
    )
    manage.requireUseful(name, Object.keys(changes), '--')
    const stores = storesOf({ data, database, databaseTimeout }, clock)
    const plan = await stores.registry('make', ({ plans }) => plans.set({ ...changes, name }))
    const { name: _, ...limitsOfPlan } = describe(plan)
    const words = Object.entries(limitsOfPlan).map(([limit, value]) => `${limit} ${inWords(value)}`)
    say(`plan ${name}: ${words.join(', ')}`)
    if (json) await printJson(describe(plan))
  },
})

const removePlan = command({
  name: 'plans remove',
  summary: 'remove a plan that no key uses',
  arguments: '<name>',
  settings: [...DATA_SETTINGS, 'json'],
  example: 'proxylist plans remove small',
  async run({ settings, args: [name = ''], clock }) {
    manage.refuseBuiltIn(name)
    await storesOf(settings, clock).registry('change', ({ plans }) =>
      manage.removePlan(plans, name),
    )
    say(`plan ${name} is removed`)
    if (settings.json) await printJson({ name, state: 'removed' })
  },
})

export const PLAN_COMMANDS = [listPlans, setPlan, removePlan]
