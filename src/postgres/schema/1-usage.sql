-- What subjects of the rate limit have used: one row each, which an admission locks. Who locks several
-- rows locks them in the order of their primary key, and rows of `days` after those of `usage`.
-- A page has room for the next version of its rows, so an update touches no index and leaves nothing to
-- vacuum. A log of admissions took three to four times the CPU; leases of quota would refuse before it is
-- used up, and a node that owns keys would lose their windows when it dies.
create table proxylist.usage (
  kind text collate "C" not null,    -- key, demo or temp
  id text collate "C" not null,      -- of the key, or the client address
  at bigint[] not null,              -- the last admissions that count, oldest first
  latest bigint not null,            -- the last admission, also one given back
  day integer not null,              -- the UTC day of `requests`
  requests integer not null,         -- as the daily limit counts them
  hour integer not null default 0,   -- the hour of `hour_requests`, counted from 1970
  hour_requests integer not null default 0, -- admitted, for the history of a key or of demo
  hours integer[] not null default '{}', -- the same of other hours of that day
  primary key (kind, id)
) with (fillfactor = 50);

-- The networks of a subject on a UTC day: a bitmap of the IPv4 /16 networks, and those of IPv6. Adding to
-- a text array would cost more with each network of the day.
create table proxylist.networks (
  kind text collate "C" not null,
  id text collate "C" not null,
  network_set text collate "C" not null, -- served: of the proxies; callers: of the clients
  day integer not null,
  networks bit(65536) not null default B'0'::bit(65536),
  others text[] collate "C" not null default '{}',
  primary key (kind, id, network_set, day)
) with (fillfactor = 50);

-- The use of a key by UTC day, except for what is in `usage` still.
create table proxylist.days (
  day integer not null,
  key_id text collate "C" not null,  -- demo: of all who use it
  requests integer not null,         -- admitted
  records bigint not null,           -- in the answers: a list of a million rows, often
  refused bigint not null,           -- 429
  hours integer[] not null,          -- admitted in each hour, up to the last hour with any
  primary key (day, key_id)
) with (fillfactor = 50);

-- The sum of two lists of hours.
create function proxylist.add_hours(one integer[], two integer[]) returns integer[]
  language sql immutable parallel safe
  return array(
    select coalesce(one[i], 0) + coalesce(two[i], 0)
    from generate_series(1, greatest(cardinality(one), cardinality(two))) i
  );
create aggregate proxylist.sum_hours(integer[]) (
  sfunc = proxylist.add_hours, stype = integer[], initcond = '{}'
);

-- A list of hours with requests in one of them; its number may count from 1970.
create function proxylist.one_hour(hour integer, requests integer) returns integer[]
  language sql immutable parallel safe
  return case when requests = 0 then '{}' else array_fill(0, array[hour % 24]) || requests end;

create function proxylist.total(hours integer[]) returns integer
  language sql immutable parallel safe
  return (select coalesce(sum(n), 0) from unnest(hours) n);

-- Adds to days of keys. A key that was removed is left out.
create function proxylist.add_days(
  _days integer[], _ids text[], _records bigint[], _refused bigint[], _hours text[]
) returns void language sql as $$
  insert into proxylist.days as d (day, key_id, requests, records, refused, hours)
  select day, id, proxylist.total(hours), records, refused, hours
  from (
    select day, id collate "C" as id, sum(records)::bigint as records,
      sum(refused)::bigint as refused, proxylist.sum_hours(hours::integer[]) as hours
    from unnest(_days, _ids, _records, _refused, _hours) a (day, id, records, refused, hours)
    where id = 'demo' or exists (select from proxylist.keys k where k.id = a.id collate "C")
    group by 1, 2
  ) added
  order by day, id
  on conflict (day, key_id) do update set
    requests = d.requests + excluded.requests,
    records = d.records + excluded.records,
    refused = d.refused + excluded.refused,
    hours = proxylist.add_hours(d.hours, excluded.hours)
$$;

-- Adds the hours of subjects, whose rows the caller has locked, to `days`. The caller clears them.
create function proxylist.move_hours(_kinds text[], _ids text[]) returns void language sql as $$
  select proxylist.add_days(
    array_agg(u.hour / 24), array_agg(case when u.kind = 'demo' then 'demo' else u.id end),
    array_agg(0::bigint), array_agg(0::bigint),
    array_agg(proxylist.add_hours(u.hours, proxylist.one_hour(u.hour, u.hour_requests))::text)
  )
  from unnest(_kinds, _ids) s (kind, id)
  join proxylist.usage u on u.kind = s.kind collate "C" and u.id = s.id collate "C"
  where u.kind <> 'temp' and (u.hour_requests <> 0 or cardinality(u.hours) > 0)
$$;

-- How many requests each subject is admitted, from how many it has room for. Requests are in order of
-- arrival: request n has the subjects at the positions up to _ends[n], and is admitted for all or none.
create function proxylist.take(_room integer[], _positions integer[], _ends integer[])
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
create function proxylist.instant(u proxylist.usage, now bigint) returns bigint
  language sql immutable parallel safe return greatest(now, u.latest);

create function proxylist.counted(
  u proxylist.usage, now bigint, window_limit integer, window_ms bigint
) returns integer language sql immutable parallel safe
  return least(window_limit,
    cardinality(u.at) - width_bucket(proxylist.instant(u, now) - window_ms, u.at));

create function proxylist.today(u proxylist.usage, now bigint) returns integer
  language sql immutable parallel safe
  return case when u.day = proxylist.instant(u, now) / 86400000 then u.requests else 0 end;

create function proxylist.room(
  u proxylist.usage, now bigint, window_limit integer, window_ms bigint, daily integer
) returns integer language sql immutable parallel safe
  return least(
    window_limit - proxylist.counted(u, now, window_limit, window_ms), daily - proxylist.today(u, now));

-- Admits requests. Subjects are in the order of the primary key, each with the rule of all its requests
-- and how many these are; what is unlimited has a limit that cannot be reached. `_waits`: for rows that are
-- locked; else they are left out.
-- Mostly each request has one subject, with room for all of its requests or none: then one statement locks,
-- decides and records, and the next reads what refuses. (Where the first only locked, all took a quarter to a
-- half more CPU.) Subjects that have no row, room for some, or hours of another day are left out: for a call
-- with `_positions` and `_ends` (see `take`), which adds rows and locks all before it decides. That is
-- another transaction: all lock rows in the same order.
-- Returns numbers: the clock, then of each subject that was not left out: its ordinal, and what it had used
-- before: the last admission (where some were admitted, no sooner than the clock), how many count in the
-- window and the oldest of them, and the requests of the day. For requests of others nothing is recorded.
create function proxylist.admit(
  _kinds text[], _ids text[], _requests integer[], _limits integer[], _windows bigint[],
  _dailies integer[], _positions integer[], _ends integer[], _waits boolean
) returns text language plpgsql as $$
declare
  _now constant bigint := proxylist.now_ms();
  _locks constant boolean := _ends is not null;
  _is_over boolean; -- whether one has hours of another day
  _admitted bigint[];
  _used text;
begin
  if _locks then
    insert into proxylist.usage (kind, id, at, latest, day, requests)
    select s.kind, s.id, '{}', 0, 0, 0 from unnest(_kinds, _ids) s (kind, id)
    where not exists (
      select from proxylist.usage u where u.kind = s.kind collate "C" and u.id = s.id collate "C")
    order by s.kind collate "C", s.id collate "C"
    on conflict do nothing;
  end if;
  if not _waits then -- a row that is locked is as one that is missing
    _ids := array(
      select (
        select u.id from proxylist.usage u
        where u.kind = s.kind collate "C" and u.id = s.id collate "C" for update skip locked
      ) from unnest(_kinds, _ids) s (kind, id)
    );
  end if;
  if _locks then
    select proxylist.take(coalesce(array_agg(u.room), '{}'), _positions, _ends), bool_or(u.is_over)
    into _requests, _is_over
    from unnest(_kinds, _ids, _limits, _windows, _dailies) s (kind, id, window_limit, window_ms, daily)
    left join lateral (
      select proxylist.room(u, _now, s.window_limit, s.window_ms, s.daily) as room,
        u.hour / 24 <> proxylist.instant(u, _now) / 86400000 as is_over
      from proxylist.usage u
      where u.kind = s.kind collate "C" and u.id = s.id collate "C" for update
    ) u on true;
  end if;
  if _is_over then
    perform proxylist.move_hours(array_agg(u.kind), array_agg(u.id))
    from unnest(_kinds, _ids, _requests) s (kind, id, asked)
    join proxylist.usage u on u.kind = s.kind collate "C" and u.id = s.id collate "C"
    where s.asked > 0 and u.hour / 24 <> proxylist.instant(u, _now) / 86400000;
  end if;
  with admitted as (
    update proxylist.usage u set
      at = u.at[cardinality(u.at) - proxylist.counted(u, _now, s.window_limit, s.window_ms) + 1:]
        || array_fill(proxylist.instant(u, _now),
          array[case when s.window_ms = 0 then 1 else s.asked end]),
      latest = proxylist.instant(u, _now),
      day = proxylist.instant(u, _now) / 86400000,
      requests = proxylist.today(u, _now) + s.asked,
      hour = proxylist.instant(u, _now) / 3600000,
      hour_requests = s.asked
        + case when u.hour = proxylist.instant(u, _now) / 3600000 then u.hour_requests else 0 end,
      hours = case
        when u.hour = proxylist.instant(u, _now) / 3600000 then u.hours
        when u.hour / 24 = proxylist.instant(u, _now) / 86400000
          then proxylist.add_hours(u.hours, proxylist.one_hour(u.hour, u.hour_requests))
        else '{}' end
    from unnest(_kinds, _ids, _requests, _limits, _windows, _dailies) with ordinality
      s (kind, id, asked, window_limit, window_ms, daily, ordinal)
    where u.kind = s.kind collate "C" and u.id = s.id collate "C" and s.asked > 0
      and s.asked <= proxylist.room(u, _now, s.window_limit, s.window_ms, s.daily)
      and (_locks or u.hour / 24 = proxylist.instant(u, _now) / 86400000)
    returning s.ordinal, u.latest, cardinality(u.at) - s.asked as counted, u.at[1] as oldest,
      u.requests - s.asked as today
  )
  select concat_ws(',', _now,
    string_agg(concat_ws(',', ordinal, latest, counted, oldest, today), ',')), array_agg(ordinal)
  into _used, _admitted from admitted;
  if cardinality(_admitted) is distinct from cardinality(_ids) then
    select concat_ws(',', _used, string_agg(concat_ws(',', s.ordinal, u.latest, c.counted,
      coalesce(u.at[cardinality(u.at) - c.counted + 1], 0), proxylist.today(u, _now)), ','))
    into _used
    from unnest(_kinds, _ids, _limits, _windows, _dailies) with ordinality
      s (kind, id, window_limit, window_ms, daily, ordinal)
    join proxylist.usage u on u.kind = s.kind collate "C" and u.id = s.id collate "C"
    cross join lateral (
      select proxylist.counted(u, _now, s.window_limit, s.window_ms) as counted
    ) c
    where s.ordinal <> all (coalesce(_admitted, '{}'))
      and (_locks or proxylist.room(u, _now, s.window_limit, s.window_ms, s.daily) <= 0);
  end if;
  return _used;
end
$$;

-- Gives admissions back, each at its instant; in the order of the primary key.
create function proxylist.give_back(_kinds text[], _ids text[], _instants bigint[])
returns void language plpgsql as $$
declare
  _row proxylist.usage;
  _at bigint;
  _ordinal integer;
  _hour integer;
begin
  for _i in 1 .. cardinality(_ids) loop
    _at := _instants[_i];
    _hour := _at / 3600000;
    select * into _row from proxylist.usage u
      where u.kind = _kinds[_i] and u.id = _ids[_i] for update;
    if found then
      select max(n) into _ordinal from unnest(array_positions(_row.at, _at)) n;
      update proxylist.usage u set
        at = case when _ordinal is null then u.at
          else u.at[:_ordinal - 1] || u.at[_ordinal + 1:] end,
        requests = case when u.day = _at / 86400000 then greatest(0, u.requests - 1)
          else u.requests end,
        hour_requests = u.hour_requests - case when u.hour = _hour then 1 else 0 end,
        hours = case when u.hour <> _hour and u.hour / 24 = _hour / 24
          then proxylist.add_hours(u.hours, proxylist.one_hour(_hour, -1)) else u.hours end
      where u.kind = _kinds[_i] and u.id = _ids[_i];
    end if;
    perform pg_notify('proxylist', format('usage %s %s', _kinds[_i], _ids[_i]));
    if _kinds[_i] = 'temp' or (found and _row.hour / 24 = _hour / 24) then
      _kinds[_i] := null; -- its day is not over, or is not counted
    end if;
  end loop;
  perform proxylist.add_days(
    array_agg(b.at / 86400000)::integer[],
    array_agg(case when b.kind = 'demo' then b.kind else b.id end), array_agg(0::bigint), array_agg(0::bigint),
    array_agg(proxylist.one_hour((b.at / 3600000)::integer, -1)::text)
  )
  from unnest(_kinds, _ids, _instants) b (kind, id, at) where b.kind is not null;
end
$$;

-- Gives a subject, or all of a kind when its id is null, a fresh start: its window, its day, or both.
-- Last admissions that lie ahead count no more; the key keeps when it was last seen.
create function proxylist.reset_usage(_kind text, _id text, _part text)
returns void language plpgsql as $$
declare
  _now bigint;
  _ids text[]; -- what is added after they are locked has a fresh start already
begin
  select array_agg(l.id) into _ids from (
    select u.id from proxylist.usage u
    where u.kind = _kind and (_id is null or u.id = _id) order by u.id for update
  ) l;
  _now := proxylist.now_ms();
  if _part <> 'day' and _kind = 'key' then
    update proxylist.keys k set last_seen = greatest(k.last_seen, u.latest)
    from proxylist.usage u
    where u.kind = 'key' and u.id = any (_ids) and k.id = u.id and u.latest > _now;
  end if;
  update proxylist.usage u set
    at = case when _part = 'day' then u.at else '{}' end,
    latest = case when _part = 'day' then u.latest else least(u.latest, _now) end,
    day = case when _part = 'day' then u.day else least(u.latest, _now) / 86400000 end,
    requests = case
      when _part = 'window' and u.day = least(u.latest, _now) / 86400000 then u.requests
      else 0 end
  where u.kind = _kind and u.id = any (_ids);
  if _part <> 'window' and _id is not null then
    perform 1 from proxylist.networks n where n.kind = _kind and n.id = _id
      order by n.network_set, n.day for update;
    delete from proxylist.networks n where n.kind = _kind and n.id = _id;
  end if;
  perform pg_notify('proxylist', format('usage %s %s', _kind, coalesce(_id, '')));
end
$$;

-- How long the usage of each kind of subject is kept after its last admission, in milliseconds: longer
-- than any window, and shorter for addresses, which are many, unless their plan counts longer.
create function proxylist.keep_ms(_kind text) returns bigint language sql stable
return case when _kind = 'key' then 172800000 else coalesce(
  (select case when p.daily is null then greatest(7200000, 2000 * p.burst_seconds::bigint)
      else 172800000 end
   from proxylist.plans p where p.name = _kind), 7200000) end;

-- Examines subjects after one, in the order of the primary key: moves the hours of days that are over,
-- and removes subjects that no limit counts any more. Returns the last one; nothing at the end.
create function proxylist.prune_usage(
  _time bigint, _after_kind text, _after_id text, _most integer, out kind text, out id text
) language plpgsql as $$
declare
  _keep_key constant bigint := _time - proxylist.keep_ms('key');
  _keep_demo constant bigint := _time - proxylist.keep_ms('demo');
  _keep_temp constant bigint := _time - proxylist.keep_ms('temp');
  _kinds text[];
  _ids text[];
begin
  select l.kind, l.id into kind, id from (
    select u.kind, u.id from proxylist.usage u
    where (u.kind, u.id) > (_after_kind collate "C", _after_id collate "C")
    order by u.kind, u.id limit _most
  ) l order by l.kind desc, l.id desc limit 1;
  if not found then return; end if;
  select array_agg(l.kind), array_agg(l.id) into _kinds, _ids from (
    select u.kind, u.id from proxylist.usage u
    where (u.kind, u.id) > (_after_kind collate "C", _after_id collate "C")
      and (u.kind, u.id) <= (prune_usage.kind collate "C", prune_usage.id collate "C")
      and ((u.hour / 24 < _time / 86400000 and (u.hour_requests <> 0 or cardinality(u.hours) > 0))
        or u.latest < case u.kind when 'key' then _keep_key when 'demo' then _keep_demo
             else _keep_temp end)
    order by u.kind, u.id for update skip locked
  ) l;
  perform proxylist.move_hours(_kinds, _ids);
  update proxylist.usage u set hour_requests = 0, hours = '{}'
  from unnest(_kinds, _ids) s (kind, id)
  where u.kind = s.kind collate "C" and u.id = s.id collate "C"
    and (u.hour_requests <> 0 or cardinality(u.hours) > 0);
  with removed as (
    delete from proxylist.usage u using unnest(_kinds, _ids) s (kind, id)
    where u.kind = s.kind collate "C" and u.id = s.id collate "C"
      and u.latest < case u.kind when 'key' then _keep_key when 'demo' then _keep_demo
        else _keep_temp end
    returning u.kind, u.id, u.latest
  )
  update proxylist.keys k set last_seen = greatest(k.last_seen, r.latest)
  from removed r where r.kind = 'key' and k.id = r.id;
end
$$;

-- Adds networks to sets, which are in the order of the primary key. Answers are in order of arrival:
-- answer n has the additions up to _ends[n], each of networks and others for the set at a position; all
-- of its sets have room for it, or it adds nothing. Returns numbers: the clock, then of each addition how
-- many networks the set had, and how many the answer has besides. `null`: a set was removed meanwhile,
-- nothing was added.
create function proxylist.consume(
  _kinds text[], _ids text[], _sets text[], _days integer[],
  _positions integer[], _quotas bigint[], _networks text[], _others text[], _ends integer[]
) returns text language plpgsql as $$
declare
  _locked integer;
  _results bigint[];
  _from integer := 1;
  _has_room boolean;
  _set proxylist.networks;
  _bits bit(65536);
  _more text[];
  _p integer;
begin
  insert into proxylist.networks (kind, id, network_set, day)
  select s.kind, s.id, s.network_set, s.day
  from unnest(_kinds, _ids, _sets, _days) s (kind, id, network_set, day)
  where not exists (
    select from proxylist.networks n where n.kind = s.kind collate "C" and n.id = s.id collate "C"
      and n.network_set = s.network_set collate "C" and n.day = s.day)
  order by s.kind collate "C", s.id collate "C", s.network_set collate "C", s.day
  on conflict do nothing;
  select count(*) into _locked from unnest(_kinds, _ids, _sets, _days) s (kind, id, network_set, day)
    cross join lateral (
      select from proxylist.networks n where n.kind = s.kind collate "C" and n.id = s.id collate "C"
        and n.network_set = s.network_set collate "C" and n.day = s.day for update
    ) n;
  if _locked < cardinality(_ids) then return null; end if;
  _results := array[proxylist.now_ms()];
  for _answer in 1 .. cardinality(_ends) loop
    _has_room := true;
    for _k in _from .. _ends[_answer] loop
      _p := _positions[_k];
      select * into _set from proxylist.networks n
      where n.kind = _kinds[_p] and n.id = _ids[_p] and n.network_set = _sets[_p] and n.day = _days[_p];
      _bits := _networks[_k]::bit(65536) & ~_set.networks;
      _more := array(select unnest(_others[_k]::text[]) collate "C" except select unnest(_set.others));
      _results := _results || bit_count(_set.networks) + cardinality(_set.others)
        || bit_count(_bits) + cardinality(_more);
      _has_room := _has_room and _results[2 * _k] + _results[2 * _k + 1] <= _quotas[_k];
    end loop;
    if _has_room then
      for _k in _from .. _ends[_answer] loop
        continue when _results[2 * _k + 1] = 0;
        _p := _positions[_k];
        update proxylist.networks n set
          networks = n.networks | _networks[_k]::bit(65536),
          others = array(select unnest(n.others) union select unnest(_others[_k]::text[]))
        where n.kind = _kinds[_p] and n.id = _ids[_p] and n.network_set = _sets[_p]
          and n.day = _days[_p];
      end loop;
    end if;
    _from := _ends[_answer] + 1;
  end loop;
  return array_to_string(_results, ',');
end
$$;

-- Commits a write that no limit counts, to see whether that is possible.
create table proxylist.probes (one boolean primary key default true check (one), n bigint not null);
insert into proxylist.probes values (true, 0);
create function proxylist.probe() returns void language sql as $$
  update proxylist.probes set n = n + 1
$$;
