/**
 * Owns the data directory of the limiter's run: its list, its plans and keys, and a journal that
 * triggers in access.db keep of every admission and every network, also of those later removed.
 */
import { Database } from 'bun:sqlite'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ACCESS_FILE, openRegistry } from '../../../../src/app.ts'
import { runCommand } from '../../bench/command.ts'
import { KINDS, keyText, listText, subjectsOf } from './traffic.ts'

const JOURNAL = `
  create table torture_journal (
    seq integer primary key, -- in order of commit
    subject text not null,
    at integer,              -- of an admission
    requests integer,        -- of an admission
    day integer,             -- of a network
    network text             -- of a network
  );
  create trigger torture_admission after insert on admissions begin
    insert into torture_journal (subject, at, requests)
    values (new.subject, new.at, new.requests);
  end;
  create trigger torture_network after insert on networks begin
    insert into torture_journal (subject, day, network)
    values (new.subject, new.day, new.network);
  end;`

/** Ids of the keys: of each kind, by subject. */
export type Ids = string[][]

export async function makeWorld(binary: string, data: string, requests: number): Promise<Ids> {
  const file = join(data, 'list.txt')
  writeFileSync(file, listText())
  await runCommand([binary, 'import', file, '--data', data])
  const registry = openRegistry(data)
  const nowMs = Date.now()
  const ids = registry.usage.transaction(() =>
    KINDS.map(kind => {
      if (kind.caller === 'demo') return []
      const isTemp = kind.caller === 'temp'
      if (!isTemp) registry.plans.set({ name: kind.name, ...kind.limits })
      return Array.from({ length: subjectsOf(kind, requests) }, (_, n) => {
        const key = keyText(kind, n)
        const plan = isTemp ? null : kind.name
        return registry.keys.add({ key, label: '', plan, expiresAt: null }, nowMs).id
      })
    }),
  )
  registry.close()
  const db = new Database(join(data, ACCESS_FILE))
  db.run(JOURNAL)
  db.close()
  return ids
}

export type JournalRow = {
  seq: number
  subject: string
  at: number | null
  requests: number | null
  day: number | null
  network: string | null
}

export function readJournal(data: string): JournalRow[] {
  const db = new Database(join(data, ACCESS_FILE), { readonly: true })
  try {
    return db.query<JournalRow, []>('select * from torture_journal order by seq').all()
  } finally {
    db.close()
  }
}
