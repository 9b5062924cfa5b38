/**
 * An import into the list of a database: rows are copied into a temporary table as they come, and merged
 * in one transaction at the end (contract D2), so that a slow source holds no transaction open. Knows
 * nothing of file formats.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { ReservedSQL } from 'bun'
import { rejectAfter } from '../lib/clock.ts'
import { CommandError, orAborted, StoreError, UnknownOutcome } from '../lib/errors.ts'
import { MINUTE_MS, toSeconds } from '../lib/time.ts'
import { FUTURE_SECONDS_MAX } from '../proxies/freshness.ts'
import { type Address, type IncomingProxy, servicesToBits } from '../proxies/proxy.ts'
import { idOf, type Merged, mergedColumns, ROW_COLUMNS, toRow, UNKNOWN } from '../proxies/row.ts'
import type { ImportCounts, ImportMode, ImportTx, ListSizes } from '../proxies/store.ts'
import { arrayLiteral, columnsOf } from './arrays.ts'
import { type ListState, lockList, storeListVersion } from './change-numbers.ts'
import { type Connection, noAnswer, onlyRow, type Value } from './connection.ts'
import { LOCK_CLASS, LOCKS } from './migrate.ts'

/**
 * A city that has both names, or meets none, is taken. A name that is already shown changes nothing; a
 * new one replaces both names; an English one alone is added to the stored default one.
 */
const city = (version: number): string => `case
      when i.city = 0 then coalesce(s.city, 0)
      when coalesce(s.city, 0) = 0 or i.city_name <> '' and i.city_name_en <> '' then i.city
      when i.city_name_en = '' then
        case when i.city_name in (s.city_name, s.city_name_en) then s.city else i.city end
      when i.city_name_en = s.city_name_en then s.city
      else proxylist.city_id(s.city_name, i.city_name_en, ${version}) end`

const mergeOf = ({ mode, version }: MergeOrder): readonly Merged[] => {
  const services = '(coalesce(s.services, 0) & ~i.stated) | i.services'
  // The types of a list in a database have no ages yet.
  const types = '(coalesce(s.types, 0) | i.types) & 15'
  return mergedColumns(mode === 'set', ['i.', 's.'], { types, services, city: city(version) })
}

const COLUMNS = ROW_COLUMNS.join(', ')
const VALUES = ROW_COLUMNS.slice(1)
const list = (alias: string, columns: readonly string[]): string =>
  columns.map(column => `${alias}.${column}`).join(', ')

/**
 * A table for the rows as they come; `position` is their order, `stated` the services they state. Until these are
 * merged, no commit waits for a disk or a standby: what it wrote is temporary.
 */
const STAGE = `
  set synchronous_commit = off;
  drop table if exists pg_temp.incoming;
  create temporary table incoming (
    position integer not null, id bigint not null, checked_at bigint not null,
    ping_ms bigint not null, types bigint not null,
    country integer not null, anon smallint not null,
    works smallint not null, speed bigint not null, services integer not null,
    city integer not null, ip_out text not null, stated integer not null)`
/** What ends the session of a process that is frozen, in its transaction or before. */
const SILENT = ['idle_session_timeout', 'idle_in_transaction_session_timeout']
const UNSTAGE = `reset synchronous_commit; set local synchronous_commit = off;
  reset ${SILENT.join('; reset ')}; drop table if exists pg_temp.incoming`

type MergeOrder = {
  mode: ImportMode
  /** A stored check after this (Unix seconds) is no check: it was written while a clock was ahead. */
  latest: number
  /** The version of the list that the import makes. */
  version: number
}

/** Resolves the cities of the rows: `$1` are their default names, `$2` their English ones. */
const citiesOf = ({ version }: MergeOrder): string => `
  create temporary table incoming_cities on commit drop as
  select position, name, name_en,
      coalesce(c.id, proxylist.city_id(name, name_en, ${version})) as id
    from unnest($1::text[], $2::text[]) with ordinality as given (name, name_en, position)
    left join proxylist.cities c using (name, name_en)`

/** The rows of the import with their cities, those with an address of their own or the others. */
const incoming = (isRepeated: boolean): string => `
  select ${ROW_COLUMNS.map(column => (column === 'city' ? 'c.id as city' : `r.${column}`)).join(', ')},
      r.stated, r.position, c.name as city_name, c.name_en as city_name_en
    from pg_temp.incoming r join pg_temp.incoming_cities c on c.position = r.city
    where ${isRepeated ? '' : 'not '}exists (select from pg_temp.repeated d where d.id = r.id)`

/** Stored rows with their cities; a replacement compares with none. */
const storedRows = ({ mode }: MergeOrder): string => `
  select ${list('p', ROW_COLUMNS)}, c.name as city_name, c.name_en as city_name_en
    from proxylist.proxies p left join proxylist.cities c on c.id = p.city
    where ${mode !== 'replace'}`

/** Whether row `i` has an effect: its check is not older, and something differs. */
const hasEffect = (merge: readonly Merged[], latest: number): string => `
      s.id is null or i.checked_at > s.checked_at or s.checked_at > ${latest} or
      i.checked_at = s.checked_at and (${merge.map(([column]) => `s.${column}`).join(', ')})
        is distinct from (${merge.map(([, merged]) => merged).join(', ')})`

/**
 * What rows that are alone with their address write. `writes` counts what they do to a row, `is_new` is
 * whether it was merged with none.
 */
const mergeSingle = (order: MergeOrder): string => {
  const merge = mergeOf(order)
  const merged = new Map([['id', 'i.id'], ['checked_at', 'i.checked_at'], ...merge])
  return `
  create temporary table merged on commit drop as
  select ${ROW_COLUMNS.map(column => `${merged.get(column)} as ${column}`).join(',\n    ')},
      1 as writes, s.id is null as is_new
    from (${incoming(false)}) i left join (${storedRows(order)}) s on s.id = i.id
    where ${hasEffect(merge, order.latest)}`
}

/**
 * What several rows of one address write, each after the other. One pass in the order of rows, for a
 * file may repeat an address a million times.
 */
const mergeRepeated = (order: MergeOrder): string => {
  const merge = mergeOf(order)
  const write = `if writes > 0 then
          insert into pg_temp.merged values (${list('s', ROW_COLUMNS)}, writes, is_new);
        end if;`
  return `
  do $$
  declare
    i record;
    s record;
    address bigint;
    writes integer := 0;
    is_new boolean;
  begin
    for i in ${incoming(true)} order by r.id, r.position loop
      if address is distinct from i.id then
        ${write}
        address := i.id;
        writes := 0;
        select * into s from (${storedRows(order)}) stored where stored.id = i.id;
        is_new := s.id is null;
      end if;
      if ${hasEffect(merge, order.latest)} then
        s.id := i.id;
        ${merge.map(([column, merged]) => `s.${column} := ${merged};`).join('\n        ')}
        s.checked_at := i.checked_at;
        select name, name_en into s.city_name, s.city_name_en
          from proxylist.cities where id = s.city;
        writes := writes + 1;
      end if;
    end loop;
    ${write}
  end $$`
}

/**
 * Removes names that no row of the import has got: those that it has added, in a replacement all. The one with
 * the highest id of before stays: new ids are counted from it, and machines have names in memory by their ids.
 */
const forgetNames = ({ mode, version }: MergeOrder): string => `
  delete from proxylist.cities c
    where (${mode === 'replace'} or version = ${version})
      and id is distinct from (select max(id) from proxylist.cities where version < ${version})
      and not exists (select from pg_temp.merged m where m.city = c.id)`

type Lowered = { id: number; works: number }
const setWorks = (version: number): string => `
  update proxylist.proxies p set works = l.works, version = ${version}
    from unnest($1::bigint[], $2::smallint[]) l (id, works)
    where p.id = l.id and p.works <> l.works`

/** How long an import waits for another one before it says so, and until it gives up. */
const SHORT_WAIT_MS = 500
const WAIT_MS = 3_600_000
/** How long a commit may take: until then a standby has what it lags behind, or it is away. */
const COMMIT_MS_MAX = MINUTE_MS
const MAY_BE_MADE = '; the import may be made, or be once the database answers'
/** Time between two attempts to lock the list; a statement that waits would hold back vacuum. */
const RETRY_MS = 50

/** Characters of rows that are sent at a time: some ten thousand rows. */
const CHUNK_LENGTH = 1024 * 1024

const MARK = 'update proxylist.list set imported = gen_random_uuid()'

/**
 * For a merge: its commit waits again; a million rows are hashed in memory, and some thousand are looked up in a
 * list that is in memory, which takes half the time that reading all of it takes.
 */
const MERGE_SETTINGS = `set local synchronous_commit to default;
  set local work_mem = 65536; set local random_page_cost = 1.1`

/** The names of cities in the order in which rows first have them, from position 1 on. */
function createNames() {
  const positions = new Map([['\0', 1]]) // unknown
  const names = ['']
  const namesEn = ['']
  return {
    names,
    namesEn,
    positionOf(name: string, nameEn: string): number {
      const pair = `${name}\0${nameEn}`
      const known = positions.get(pair)
      if (known !== undefined) return known
      names.push(name)
      namesEn.push(nameEn)
      positions.set(pair, names.length)
      return names.length
    },
  }
}

/**
 * A connection that an import has for itself, for its lock and its temporary tables. Whatever it waits for, it
 * rejects with the reason of `signal` once that is aborted.
 */
function createSession(
  connection: Connection,
  reserved: ReservedSQL,
  signal = new AbortController().signal,
) {
  const using = <T>(work: () => PromiseLike<T>) => orAborted(connection.using(work), signal)
  const run = <R extends object>(text: string, values: readonly Value[] = []) =>
    using<R[] & { count: number }>(() => reserved.unsafe(text, [...values]))
  let isLocked = false
  return {
    run,
    /** Locks the list for as long as the session lasts; `onWait` is called when another import has it. */
    async lock(onWait: () => void, silentMsMax: number): Promise<void> {
      const silent = SILENT.map(name => `set_config('${name}', '${silentMsMax}', false)`)
      for (let waitedMs = 0; waitedMs < WAIT_MS; waitedMs += RETRY_MS) {
        const text = `select ${silent}, pg_try_advisory_lock($1, $2) as ok`
        isLocked = (await onlyRow<{ ok: boolean }>(run, text, [LOCK_CLASS, LOCKS.list])).ok
        if (isLocked) return
        if (waitedMs === SHORT_WAIT_MS) onWait()
        await delay(RETRY_MS, undefined, { signal }).catch(() => signal.throwIfAborted())
      }
      throw new StoreError('another import has locked the list for too long')
    },
    fill: (text: string): Promise<void> =>
      using(async () => {
        const query = reserved.unsafe('copy pg_temp.incoming from stdin')
        const writer = query.writable().getWriter()
        void writer.write(text).catch(() => {}) // close() rejects, too
        await writer.close()
        await query
      }),
    /** Commits. One that waits for a standby is done when that is back, though nobody waits any more. */
    async commit(): Promise<void> {
      const late = () => noAnswer(connection.shown)
      await rejectAfter(run('commit'), COMMIT_MS_MAX, late, connection.renew).catch(error => {
        if (error instanceof UnknownOutcome) throw new UnknownOutcome(error.message + MAY_BE_MADE)
        if (error !== signal.reason || !(error instanceof CommandError)) throw error
        const kept = 'the database has made the import or not, but no part of it'
        throw new CommandError(`interrupted; ${kept}`, error.exitCode)
      })
    },
    /** Ends the import; with a connection that was lost, or that a signal ends, its lock has ended too. */
    async end(): Promise<void> {
      const unlock = isLocked ? `; select pg_advisory_unlock(${LOCK_CLASS}, ${LOCKS.list})` : ''
      if (signal.aborted) connection.renew()
      else await run(UNSTAGE + unlock).catch(connection.renew)
      reserved.release()
    },
  }
}

type Session = ReturnType<typeof createSession>

/** What a merge has made of the rows, before it is written; the checks are as in `ListState`. */
type Summary = { rows: number; written: number; newest: number | null; oldest: number | null }

/** The checks of a list into which rows were merged; only one ahead of the clock can get earlier. */
async function boundsAfter(
  run: Session['run'],
  { before, found, latest }: { before: ListState; found: Summary; latest: number },
) {
  const isAhead = before.newest !== null && before.newest > latest
  const text = 'select max(checked_at)::float8 as newest from proxylist.proxies'
  const { newest } = isAhead ? await onlyRow<Pick<Summary, 'newest'>>(run, text) : before
  return {
    newest: Math.max(newest ?? 0, found.newest ?? 0),
    oldest: Math.min(before.oldest ?? Infinity, found.oldest ?? Infinity),
  }
}

type MergeParts = {
  mode: ImportMode
  latest: number
  names: ReturnType<typeof createNames>
  lowered: readonly Lowered[]
  approve: (sizes: ListSizes) => void
}

/**
 * Merges the rows that were copied, in the transaction that is under way. Its result is in a temporary
 * table before anything is written, because a replacement has to be approved.
 */
async function merge(run: Session['run'], parts: MergeParts) {
  const { mode, latest, names, lowered, approve } = parts
  const isReplace = mode === 'replace'
  const before = await lockList(run)
  const version = before.version + 1
  const order = { mode, latest, version }
  await run('analyze pg_temp.incoming (id)')
  await run(citiesOf(order), [arrayLiteral(names.names), arrayLiteral(names.namesEn)])
  const { count: repeated } = await run(`
    create temporary table repeated on commit drop as
    select id from pg_temp.incoming group by id having count(*) > 1`)
  await run(mergeSingle(order))
  if (repeated > 0) await run(mergeRepeated(order))
  await run('analyze pg_temp.merged (id)')
  const found = await onlyRow<Summary>(
    run,
    `select count(*)::float8 as rows, coalesce(sum(writes), 0)::float8 as written,
      max(checked_at)::float8 as newest, min(checked_at)::float8 as oldest from pg_temp.merged`,
  )
  let removed = 0
  if (isReplace) {
    approve({ before: before.rows, after: found.rows })
    const gone = await run(`
      with gone as (
        delete from proxylist.proxies p
          where not exists (select from pg_temp.merged m where m.id = p.id) returning p.id
      )
      insert into proxylist.removed select id, ${version} from gone
        on conflict (id) do update set version = excluded.version`)
    removed = gone.count
  }
  const { count: updated } = await run(`
    update proxylist.proxies p
      set ${VALUES.map(column => `${column} = m.${column}`).join(', ')}, version = ${version}
      from pg_temp.merged m where p.id = m.id and
        ${isReplace ? `(${list('p', VALUES)}) is distinct from (${list('m', VALUES)})` : 'not m.is_new'}`)
  const { count: added } = await run(`
    insert into proxylist.proxies (${COLUMNS}, version)
    select ${COLUMNS}, ${version} from pg_temp.merged m
      where ${isReplace ? 'not exists (select from proxylist.proxies p where p.id = m.id)' : 'm.is_new'}`)
  await run(forgetNames(order))
  const works = await run(setWorks(version), columnsOf(lowered, 'id', 'works'))
  const isChanged = added + updated + removed + works.count > 0
  if (isChanged) {
    const { newest, oldest } = isReplace ? found : await boundsAfter(run, { before, found, latest })
    await storeListVersion(run, { newest, oldest, version, rows: before.rows + added - removed })
    if (isReplace || mode === 'merge') await run(MARK)
  }
  const written = (isReplace ? added + updated : found.written) + works.count
  return { added, removed, written, isChanged }
}

/**
 * An import. The list is locked by `commit`, once all rows are in the database, however slowly they come, by a
 * lock that ends with the connection. Nothing is visible before `commit`; `rollback`, or the end of the
 * process, leaves the list as it was. By `nowMs`, rows are recognised whose check lies in the future:
 * any update replaces them.
 */
export function beginImport(
  connection: Connection,
  mode: ImportMode,
  onWait: () => void,
  nowMs: number,
  silentMsMax = MINUTE_MS, // of a process that is frozen: its lock is lost then
) {
  const names = createNames()
  let started: Promise<Session> | null = null
  const lowered: Lowered[] = []
  let accepted = 0
  let text = ''
  /** Resolves when what was sent so far is stored, and when what was sent before the last chunk is. */
  let sent: Promise<unknown> = Promise.resolve()
  let sentBefore = sent

  const start = (signal?: AbortSignal): Promise<Session> => {
    started ??= (async () => {
      const reserved = await connection.using(sql => sql.reserve())
      const session = createSession(connection, reserved, signal)
      await session.run(STAGE).catch(async error => {
        await session.end()
        throw error
      })
      return session
    })()
    return started
  }

  function send(): void {
    const chunk = text
    text = ''
    sentBefore = sent
    sent = sent.then(async () => (await start()).fill(chunk))
    sent.catch(() => {}) // what waits for it throws
  }

  async function end(): Promise<void> {
    const session = await started?.catch(() => null)
    started = null
    await sent.catch(() => {})
    await session?.end()
  }

  return {
    async lock(signal?: AbortSignal): Promise<void> {
      await start(signal)
    },
    add(proxy: IncomingProxy): void {
      accepted += 1
      const row = toRow(proxy, names.positionOf(proxy.city, proxy.cityEn))
      text += `${accepted}\t${row.join('\t')}\t${servicesToBits(proxy.servicesStated)}\n`
      if (text.length >= CHUNK_LENGTH) send()
    },
    lower(address: Address, works: number | null): void {
      accepted += 1
      lowered.push({ id: idOf(address), works: works ?? UNKNOWN })
    },
    async drained(): Promise<void> {
      await sentBefore
    },
    async commit(approve: (sizes: ListSizes) => void = () => {}): Promise<ImportCounts> {
      const session = await start()
      if (text !== '') send()
      await sent
      await session.lock(onWait, silentMsMax)
      const latest = toSeconds(nowMs) + FUTURE_SECONDS_MAX
      const { run } = session
      await run(`begin; ${MERGE_SETTINGS}`)
      const parts = { mode, latest, names, lowered, approve }
      const merged = await merge(run, parts).catch(async error => {
        await run('rollback').catch(() => {}) // its connection may be lost
        throw error
      })
      const { added, written, removed, isChanged } = merged
      await (isChanged ? session.commit() : run('rollback')) // new names of cities are no change
      await end()
      return { added, updated: written - added, unchanged: accepted - written, removed }
    },
    rollback: end,
  } satisfies ImportTx
}
