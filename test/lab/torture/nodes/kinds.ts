/** The keys of a run with many nodes: every kind of limit, with small windows and large ones. */
import { UNLIMITED } from '../../../support/fixtures.ts'
import { burst, type Kind, regular } from '../limiter/traffic.ts'

/** Every kind of limit of contract B2 to B6; more are admitted than in the run on one machine. */
export const KINDS: readonly Kind[] = [
  regular('one', 4, 20_000, burst(1, 1)),
  regular('five', 4, 20_000, burst(5, 5)),
  regular('many', 8, 20_000, burst(40, 2)),
  regular('wide', 12, 20_000, burst(300, 1)),
  regular('vast', 8, 6_000, burst(1_000, 60)),
  regular('long', 4, 4_000, burst(3, 20)),
  regular('daily', 16, 600, { daily: 300 }),
  regular('both', 8, 400, { ...burst(20, 1), daily: 200 }),
  regular('subnets', 8, 300, { subnets: 6 }),
  regular('clients', 8, 300, { clients: 3 }),
  regular('all', 8, 300, { ...burst(30, 1), daily: 200, subnets: 8, clients: 4 }),
  { name: 'demo', caller: 'demo', limits: UNLIMITED, share: 6, each: 10 },
  { name: 'temp', caller: 'temp', limits: UNLIMITED, share: 6, each: 8 },
]
