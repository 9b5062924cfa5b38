/**
 * The data directory of the limiter's run: its list, plans and keys, and a journal in which
 * triggers of access.db record every admission and every network, even if they are removed later.
 */
import { Database } from 'bun:sqlite'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { addKeys } from '../../../support/fixtures.ts'
import { succeed } from '../../../support/launch.ts'
import { files } from '../../support/serve.ts'
import type { AdmissionRow, JournalRows, NetworksRow } from './records.ts'
import { customersOf, type Ids, listText } from './traffic.ts'

const REAL_MS = "cast(round(unixepoch('subsec') * 1000) as integer)"
const JOURNAL = `
  create table torture_journal (
    seq integer primary key, -- in order of commit
    subject text not null,
    realMs integer not null,
    xid text,                -- the batch of an admission
    at integer,              -- of an admission, or of one that is given back
    requests integer,        -- of an admission: that of the day; null: it is given back
    day integer,             -- of a network
    network text             -- of a network
  );
  create trigger torture_admission after insert on batches begin
    insert into torture_journal (subject, realMs, xid, at, requests)
    select (value ->> 0) || ':' || (value ->> 1), ${REAL_MS}, new.id, value ->> 2, value ->> 3
    from json_each(new.admissions)
    where value ->> 0 in ('key', 'demo', 'temp') order by id; -- no resets
  end;
  create trigger torture_network after insert on networks
  when new.subject_kind <> 'probe' begin -- which a server writes after a failure
    insert into torture_journal (subject, realMs, day, network)
    values (new.subject_kind || ':' || new.subject_id || ':' || new.network_set, ${REAL_MS},
      new.day, new.network);
  end;`

/** Makes the access.db in `data` keep a journal. */
export function addJournal(data: string): void {
  const db = new Database(files(data).access)
  db.run(JOURNAL)
  db.close()
}

export async function makeWorld(binary: string, data: string, requests: number): Promise<Ids> {
  const file = join(data, 'list.txt')
  writeFileSync(file, listText())
  await succeed([binary, 'import', file, '--data', data])
  const { plans, keys, byKind } = customersOf(requests)
  const ids = byKind(addKeys(data, plans, keys))
  addJournal(data)
  return ids
}

type Row = Omit<AdmissionRow, 'added' | 'gone' | 'oldest'> & { requests: number | null }
type NetworkRow = Omit<NetworksRow, 'added'> & { network: string }

export function readJournal(data: string): JournalRows {
  const db = new Database(files(data).access, { readonly: true })
  try {
    const rows = <T>(which: string): T[] =>
      db.query<T, []>(`select * from torture_journal where ${which} is not null order by seq`).all()
    return {
      admissions: rows<Row>('at').map(row => {
        const isBack = row.requests === null
        return { ...row, added: isBack ? -1 : 1, gone: isBack ? [row.at] : [], oldest: null }
      }),
      networks: rows<NetworkRow>('day').map(row => ({ ...row, added: [row.network] })),
    }
  } finally {
    db.close()
  }
}
