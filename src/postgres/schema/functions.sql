-- The functions that requests call. They are replaced at each upgrade.

-- How many requests each subject is admitted, from how many it has room for. Requests are in order of
-- arrival: request n has the subjects at the positions up to _ends[n], and is admitted for all or none.
create or replace function proxylist.take(_room integer[], _positions integer[], _ends integer[])
returns integer[] language plpgsql immutable as $$
declare
  _took integer[] := array_fill(0, array[cardinality(_room)]);
  _from integer := 1;
  _has_room boolean;
  _p integer;
begin
  for _n in 1 .. cardinality(_ends) loop
    _has_room := true;
    foreach _p in array _positions[_from : _ends[_n]] loop
      _has_room := _has_room and _took[_p] < _room[_p];
    end loop;
    if _has_room then
      foreach _p in array _positions[_from : _ends[_n]] loop
        _took[_p] := _took[_p] + 1;
      end loop;
    end if;
    _from := _ends[_n] + 1;
  end loop;
  return _took;
end
$$;

-- The rule of a limit (`rate-limit.ts` has the same): when a request counts, how many admissions count in its
-- window then, how many requests on its day, and for how many more there is room. A clock that steps back
-- admits no more. Planning puts them into the statements that call them.
create or replace function proxylist.instant(u proxylist.usage, now bigint) returns bigint
  language sql immutable parallel safe return greatest(now, u.latest);

create or replace function proxylist.counted(
  u proxylist.usage, now bigint, window_limit integer, window_ms bigint
) returns integer language sql immutable parallel safe
  return least(window_limit,
    cardinality(u.at) - width_bucket(proxylist.instant(u, now) - window_ms, u.at));

create or replace function proxylist.today(u proxylist.usage, now bigint) returns integer
  language sql immutable parallel safe
  return case when u.day = proxylist.instant(u, now) / 86400000 then u.requests else 0 end;

create or replace function proxylist.room(
  u proxylist.usage, now bigint, window_limit integer, window_ms bigint, daily integer
) returns integer language sql immutable parallel safe
  return least(
    window_limit - proxylist.counted(u, now, window_limit, window_ms), daily - proxylist.today(u, now));

-- Adds rows for subjects that have none.
create or replace function proxylist.add_subjects(_kinds text[], _ids text[])
returns void language sql as $$
  insert into proxylist.usage (kind, id, at, latest, day, requests)
  select s.kind, s.id, '{}', 0, 0, 0 from unnest(_kinds, _ids) s (kind, id)
  order by s.kind collate "C", s.id collate "C"
  on conflict do nothing
$$;

-- Admits requests, which are in order of arrival, see `take`. Their subjects are in the order of the primary key,
-- in which rows are locked. A limit that does not exist is one that cannot be reached.
-- Returns numbers: the clock, then of each subject its usage before: the last admission, the number of admissions
-- in the window and the oldest of them, and the requests of the day.
create or replace function proxylist.admit(
  _kinds text[], _ids text[], _limits integer[], _windows bigint[], _dailies integer[],
  _positions integer[], _ends integer[]
) returns text language plpgsql as $$
declare
  _now constant bigint := proxylist.now_ms();
  _room integer[];
  _used text;
begin
  loop
    select coalesce(array_agg(u.room), '{}'), string_agg(u.used, ',') into _room, _used
    from unnest(_kinds, _ids, _limits, _windows, _dailies) s (kind, id, window_limit, window_ms, daily)
    cross join lateral (
      select proxylist.room(u, _now, s.window_limit, s.window_ms, s.daily) as room,
        concat_ws(',', u.latest, c.counted, coalesce(u.at[cardinality(u.at) - c.counted + 1], 0),
          proxylist.today(u, _now)) as used
      from proxylist.usage u
      cross join lateral (
        select proxylist.counted(u, _now, s.window_limit, s.window_ms) as counted
      ) c
      where u.kind = s.kind collate "C" and u.id = s.id collate "C" for update of u
    ) u;
    exit when cardinality(_room) = cardinality(_ids);
    perform proxylist.add_subjects(_kinds, _ids);
  end loop;
  update proxylist.usage u set
    at = u.at[cardinality(u.at) - proxylist.counted(u, _now, s.window_limit, s.window_ms) + 1:]
      || array_fill(proxylist.instant(u, _now),
        array[case when s.window_ms = 0 then 1 else s.took end]),
    latest = proxylist.instant(u, _now),
    day = proxylist.instant(u, _now) / 86400000,
    requests = proxylist.today(u, _now) + s.took
  from unnest(_kinds, _ids, _limits, _windows, proxylist.take(_room, _positions, _ends))
    s (kind, id, window_limit, window_ms, took)
  where u.kind = s.kind collate "C" and u.id = s.id collate "C" and s.took > 0;
  return concat_ws(',', _now, _used);
end
$$;

-- Refunds admissions, each at its instant; in the order of the primary key.
create or replace function proxylist.give_back(_kinds text[], _ids text[], _instants bigint[])
returns void language plpgsql as $$
begin
  for _i in 1 .. cardinality(_ids) loop
    update proxylist.usage u set
      at = coalesce(u.at[:array_position(u.at, _instants[_i]) - 1]
        || u.at[array_position(u.at, _instants[_i]) + 1:], u.at),
      requests = case when u.day = _instants[_i] / 86400000 then greatest(0, u.requests - 1)
        else u.requests end
    where u.kind = _kinds[_i] and u.id = _ids[_i];
  end loop;
  perform pg_notify('proxylist', 'usage');
end
$$;

-- Resets the window, the day, or all (`_part`) of a subject, or of all of a kind when its id is null. Last
-- admissions that lie ahead of the clock count no more.
create or replace function proxylist.reset_usage(_kind text, _id text, _part text)
returns void language sql as $$
  with locked as (
    select u.id, proxylist.now_ms() as now from proxylist.usage u
    where u.kind = _kind and (_id is null or u.id = _id) order by u.id for update
  )
  update proxylist.usage u set
    at = case when _part = 'day' then u.at else '{}' end,
    latest = case when _part = 'day' then u.latest else least(u.latest, l.now) end,
    day = case when _part = 'day' then u.day else least(u.latest, l.now) / 86400000 end,
    requests = case when _part = 'window' and u.day = least(u.latest, l.now) / 86400000
      then u.requests else 0 end
  from locked l where u.kind = _kind and u.id = l.id;
  delete from proxylist.networks n where _part <> 'window' and n.kind = _kind and n.id = _id;
  select pg_notify('proxylist', 'usage');
$$;

-- Adds the networks of an answer to sets of a subject, or nothing if one of them has no room. Returns, for each
-- set, how many networks it had, and how many the answer has besides.
create or replace function proxylist.consume(_kind text, _id text, _additions json)
returns json language plpgsql as $$
declare
  _counts json;
  _has_room boolean;
begin
  perform proxylist.add_subjects(array[_kind], array[_id]);
  perform from proxylist.usage u where u.kind = _kind and u.id = _id for update;
  select json_agg(json_build_array(c.used, c.added)), bool_and(c.used + c.added <= a.quota)
  into _counts, _has_room
  from json_to_recordset(_additions) a (set text, day integer, quota bigint, networks text[])
  cross join lateral (
    select (
        select count(*) from proxylist.networks n
        where n.kind = _kind and n.id = _id and n.network_set = a.set and n.day = a.day
      ) as used, (
        select count(*) from unnest(a.networks) new (network) where not exists (
          select from proxylist.networks n
          where n.kind = _kind and n.id = _id and n.network_set = a.set and n.day = a.day
            and n.network = new.network collate "C")
      ) as added
  ) c;
  if _has_room then
    insert into proxylist.networks
    select _kind, _id, a.set, a.day, unnest(a.networks)
    from json_to_recordset(_additions) a (set text, day integer, networks text[])
    on conflict do nothing;
  end if;
  return _counts;
end
$$;

-- Removes up to `_most` rows of each table that limits and history no longer need; returns whether more may
-- remain. Keys stay for two days, addresses, which are many, for two hours, unless their plan counts longer. Ages
-- are measured from the clock or the last admission, whichever is earlier.
create or replace function proxylist.prune_usage(_most integer, _history_days integer) returns boolean
language sql as $$
  with clock as materialized (
    select least(proxylist.now_ms(), max(latest)) as now from proxylist.usage
  ), stale as (
    select u.kind, u.id from clock, proxylist.usage u
    where u.latest < now - case u.kind when 'key' then 172800000 else coalesce((
        select case when p.daily is null then greatest(7200000, 2000 * p.burst_seconds::bigint)
          else 172800000 end
        from proxylist.plans p where p.name = u.kind), 7200000) end
    limit _most for update of u skip locked
  ), removed as (
    delete from proxylist.usage u using stale s where u.kind = s.kind and u.id = s.id
    returning u.kind, u.id, u.latest
  ), seen as (
    update proxylist.keys k set last_seen = greatest(k.last_seen, r.latest)
    from removed r where r.kind = 'key' and k.id = r.id
  ), networks as (
    delete from proxylist.networks where ctid = any (array(
      select n.ctid from clock, proxylist.networks n where day < now / 86400000 - 2 limit _most))
    returning 1
  ), days as (
    delete from proxylist.days where ctid = any (array(
      select d.ctid from clock, proxylist.days d where day <= now / 86400000 - _history_days limit _most))
    returning 1
  )
  select _most in (
    (select count(*) from removed), (select count(*) from networks), (select count(*) from days))
$$;
