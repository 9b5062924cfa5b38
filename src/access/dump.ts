/** The data besides the list that `backup` and `restore` copy between a data directory and a shared database. */
import type { StoredKey } from './key.ts'
import type { NetworkSet } from './network-quota.ts'
import type { Plan } from './plan.ts'
import type { Subject, Usage } from './rate-limit.ts'

/** The networks that a subject has used on a UTC day. */
export type UsedNetworks = {
  subject: Subject
  set: NetworkSet
  day: number
  networks: readonly string[]
}

/** Keys, plans, and the usage behind limits: windows, days and networks. Charts are not part of it. */
export type AccessDump = {
  plans: readonly Plan[]
  keys: readonly StoredKey[]
  usage: readonly (Subject & Usage)[]
  networks: readonly UsedNetworks[]
}
