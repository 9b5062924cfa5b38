/**
 * The world of a run with many nodes: the shared database with list, plans and keys, made by the
 * program's own commands, and the journal that a run adds to it. Triggers write what each admission and
 * each answer counts, in the same transaction, with the clock of limits and the real one.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  addSharedCustomers,
  command,
  type Shared,
  type SharedDatabase,
} from '../../support/shared-database.ts'
import type { AdmissionRow, JournalRows, NetworksRow } from '../limiter/records.ts'
import { customersOf, type Ids, listText } from '../limiter/traffic.ts'
import type { Run } from '../part.ts'

/** A run with the program as the beginning of a command. */
export type NodesRun = Omit<Run, 'binary'> & { program: readonly string[] }

const JOURNAL = `
  create schema torture;
  create table torture.clock (ms bigint not null); -- how far limits are ahead of the real clock
  insert into torture.clock values (0);
  create table torture.admissions (
    seq bigserial primary key, -- of one subject in order of commit: its row is locked
    subject text not null,
    at bigint not null,        -- by the clock of limits
    real_ms bigint not null,   -- by the real clock, before the commit
    added integer not null,    -- requests; less than 0: given back
    gone bigint[] not null,    -- instants of those given back, where the subject still had them
    oldest bigint,             -- the oldest instant that the subject has
    xid xid8 not null
  );
  create table torture.networks (
    seq bigserial primary key,
    subject text not null,     -- and the set
    day integer not null,
    real_ms bigint not null,
    added text[] not null
  );
  create function torture.real_ms() returns bigint language sql volatile as
    $$ select floor(extract(epoch from clock_timestamp()) * 1000)::bigint $$;

  create function torture.note_admission() returns trigger language plpgsql security definer as $$
  declare
    _added integer;
    _gone bigint[] := '{}';
  begin
    if tg_op = 'DELETE' then -- pruned: the limits forget it, early where the clock was ahead
      if cardinality(old.at) > 0 then
        insert into torture.admissions (subject, at, real_ms, added, gone, oldest, xid)
        values (old.kind || ':' || old.id, old.latest, torture.real_ms(), -cardinality(old.at),
          old.at, null, pg_current_xact_id());
      end if;
      return null;
    end if;
    _added := new.requests;
    if tg_op = 'UPDATE' then
      if old.day = new.day then _added := new.requests - old.requests; end if;
      -- Given back after midnight: the window lacks it, and the day that goes on never counted it.
      if _added = 0 then
        _added := least(0, cardinality(new.at) - cardinality(old.at));
      end if;
      if _added < 0 then
        select coalesce(array_agg(a order by a), '{}') into _gone from
          (select unnest(old.at) except all select unnest(new.at)) gone(a);
      end if;
    end if;
    if _added <> 0 then
      insert into torture.admissions (subject, at, real_ms, added, gone, oldest, xid)
      values (new.kind || ':' || new.id, new.latest, torture.real_ms(), _added, _gone,
        new.at[1], pg_current_xact_id());
    end if;
    return null;
  end $$;
  create trigger torture_admission after insert or update or delete on proxylist.usage
    for each row execute function torture.note_admission();

  create function torture.note_networks() returns trigger language plpgsql security definer as $$
  declare
    _bits bit(65536) := new.networks;
    _at integer := 0;
    _next integer;
    _added text[] := new.others;
  begin
    if tg_op = 'UPDATE' then
      _bits := new.networks & ~old.networks;
      _added := array(select unnest(new.others) except select unnest(old.others));
    end if;
    loop
      _next := position(B'1' in substring(_bits from _at + 1));
      exit when _next = 0;
      _at := _at + _next; -- from 1 on
      _added := _added || case when new.network_set = 'served' then (_at - 1)::text
        else format('%s.%s.0.0/16', (_at - 1) / 256, (_at - 1) % 256) end;
    end loop;
    insert into torture.networks (subject, day, real_ms, added)
    values (new.kind || ':' || new.id || ':' || new.network_set, new.day, torture.real_ms(), _added);
    return null;
  end $$;
  create trigger torture_networks after insert or update on proxylist.networks
    for each row execute function torture.note_networks();

  grant usage on schema torture to public;
  grant select on torture.clock to public;
  create or replace function proxylist.now_ms() returns bigint language sql volatile as
    $$ select torture.real_ms() + (select ms from torture.clock) $$;
`

/** Fills the database, which keeps a journal from then on; gives the ids of the keys. */
export async function makeWorld(
  shared: Shared & { database: SharedDatabase },
  directory: string,
  requests: number,
): Promise<Ids> {
  const list = join(directory, 'list.txt')
  writeFileSync(list, listText())
  await command(shared, ['import', list])
  const customers = customersOf(requests)
  const ids = customers.byKind(await addSharedCustomers(shared, directory, customers))
  await shared.database.run(JOURNAL)
  return ids
}

export async function readJournal({ run }: SharedDatabase): Promise<JournalRows> {
  const admissions = await run(
    `select seq::float8, subject, at::float8, real_ms::float8 as "realMs", added,
       array_to_json(gone)::text as gone, oldest::float8, xid::text
     from torture.admissions order by seq`,
  )
  const networks = await run(
    `select subject, day, real_ms::float8 as "realMs", array_to_json(added)::text as added
     from torture.networks order by seq`,
  )
  const parsed = (rows: { [column: string]: unknown }[], column: string) =>
    rows.map(row => ({ ...row, [column]: JSON.parse(String(row[column])) }))
  return {
    admissions: parsed(admissions, 'gone') as AdmissionRow[], // as selected
    networks: parsed(networks, 'added') as NetworksRow[],
  }
}
