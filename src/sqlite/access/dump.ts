/** Reads and writes keys, plans and usage of a data directory as a whole. */
import type { Database } from 'bun:sqlite'
import type { AccessDump, UsedNetworks } from '../../access/dump.ts'
import type { Subject } from '../../access/rate-limit.ts'
import { writeTransaction } from '../database.ts'
import { createAdmissionLog, writeSnapshot } from './admission-log.ts'
import { createKeyWriter, readStoredKeys } from './keys.ts'
import { createPlanStore } from './plans.ts'

type NetworkRow = Pick<UsedNetworks, 'set' | 'day'> & {
  kind: Subject['kind']
  id: string
  networks: string
}

const NETWORKS = `
  select subject_kind as kind, subject_id as id, network_set as "set", day,
    json_group_array(network) as networks
  from networks where subject_kind <> 'probe'
  group by subject_kind, subject_id, network_set, day`

export function readAccessDump(db: Database): AccessDump {
  const log = createAdmissionLog(db)
  return db.transaction(() => {
    log.catchUp()
    return {
      plans: createPlanStore(db).list(),
      keys: readStoredKeys(db),
      usage: log.subjects(),
      networks: db
        .query<NetworkRow, []>(NETWORKS)
        .all()
        .map(({ kind, id, set, day, networks }) => ({
          ...{ subject: { kind, id }, set, day },
          networks: JSON.parse(networks) as string[], // an array of texts, see NETWORKS
        })),
    }
  })()
}

/** Writes into a database without keys and usage, in one transaction. */
export function writeAccessDump(db: Database, dump: AccessDump): void {
  const network = db.prepare('insert into networks values (?, ?, ?, ?, ?)')
  writeTransaction(db, () => {
    dump.plans.forEach(createPlanStore(db).set)
    dump.keys.forEach(createKeyWriter(db))
    writeSnapshot(db, dump.usage)
    for (const { subject, set, day, networks } of dump.networks) {
      for (const name of networks) network.run(subject.kind, subject.id, set, day, name)
    }
  })
}
