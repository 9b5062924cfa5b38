-- What subjects of the rate limit have used: one row each, which an admission locks. Who locks several
-- rows locks them in the order of their primary key, and rows of `days` after those of `usage`.
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

-- The networks of a subject on a UTC day.
create table proxylist.networks (
  kind text collate "C" not null,
  id text collate "C" not null,
  network_set text collate "C" not null, -- served: of the proxies; callers: of the clients
  day integer not null,
  networks text[] collate "C" not null,
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

-- Admits requests that have one rule each, of subjects in the order of the primary key with so many
-- requests; all of a subject or, where it has no room for all, none. What is unlimited has a limit that
-- cannot be reached; `_kept` is how many of the admissions its window keeps. One statement locks, decides
-- and records; the next only reads what it has left. So who has to lock a row twice, or a row that is not
-- there, does that in another transaction (`admit_together`): all lock rows in the same order.
-- Returns numbers: the clock, then of each subject that has a row: its place, negative when nothing was
-- admitted; then its usage, with what was admitted: the last admission, how many count in the window and
-- the oldest of them, and the requests of the day.
create function proxylist.admit(
  _kinds text[], _ids text[], _requests integer[], _kept integer[],
  _limits integer[], _windows bigint[], _dailies integer[]
) returns text language plpgsql as $$
declare
  _now constant bigint := proxylist.now_ms();
  _today constant integer := _now / 86400000;
  _hour constant integer := _now / 3600000;
  _places bigint[];
  _admitted text;
  _rest text;
begin
  with admitted as (
    update proxylist.usage u set
      at = u.at[width_bucket(greatest(_now, u.latest) - s.window_ms, u.at) + 1:]
        || array_fill(greatest(_now, u.latest), array[s.kept]),
      latest = greatest(_now, u.latest), -- a clock that steps back admits no more
      requests = u.requests + s.requests,
      hour = _hour,
      hour_requests = s.requests + case when u.hour = _hour then u.hour_requests else 0 end,
      hours = case when u.hour = _hour then u.hours
        else proxylist.add_hours(u.hours, proxylist.one_hour(u.hour, u.hour_requests)) end
    from unnest(_kinds, _ids, _requests, _kept, _limits, _windows, _dailies) with ordinality
      s (kind, id, requests, kept, window_limit, window_ms, daily, place)
    where u.kind = s.kind collate "C" and u.id = s.id collate "C"
      and u.day = _today and u.hour / 24 = _today and greatest(_now, u.latest) / 3600000 = _hour
      and u.requests + s.requests <= s.daily
      and cardinality(u.at) - width_bucket(greatest(_now, u.latest) - s.window_ms, u.at)
        + s.requests <= s.window_limit
    returning s.place, u.latest, cardinality(u.at) as counted, u.at[1] as oldest, u.requests
  )
  select string_agg(concat_ws(',', place, latest, counted, oldest, requests), ','),
    array_agg(place)
  into _admitted, _places from admitted;
  if cardinality(_places) is distinct from cardinality(_ids) then
    select string_agg(concat_ws(',', -place, latest, counted,
        coalesce(at[cardinality(at) - counted + 1], 0), requests), ',')
    into _rest
    from (
      select s.place, u.latest, u.at, least(s.window_limit, cardinality(u.at)
          - width_bucket(greatest(_now, u.latest) - s.window_ms, u.at)) as counted,
        case when u.day = greatest(_now, u.latest) / 86400000 then u.requests else 0 end as requests
      from unnest(_kinds, _ids, _limits, _windows) with ordinality
        s (kind, id, window_limit, window_ms, place)
      join proxylist.usage u on u.kind = s.kind collate "C" and u.id = s.id collate "C"
      where s.place <> all (coalesce(_places, '{}'))
    ) left_out;
  end if;
  return concat_ws(',', _now, _admitted, _rest);
end
$$;

-- Admits requests with any number of rules, and of subjects of any state: adds rows that are missing,
-- and locks all rows before it decides. Subjects are in the order of the primary key, each with the rule
-- of all its requests; null is unlimited. Requests are in order of arrival: request n has the subjects
-- at the positions up to _ends[n], and is admitted for all of them or for none.
-- Returns numbers: the clock, then of each subject what it had used before: the last admission, how many
-- count in the window and the oldest of them, and the requests of the day. `null`: a row was removed
-- meanwhile, and nothing was recorded.
create function proxylist.admit_together(
  _kinds text[], _ids text[], _limits integer[], _windows bigint[], _dailies integer[],
  _positions integer[], _ends integer[]
) returns text language plpgsql as $$
declare
  _n constant integer := cardinality(_ids);
  _now bigint;
  _row record;
  _i integer := 0;
  _j integer := 1;
  _m integer;
  _at bigint;
  _counted integer;
  _oldest bigint;
  _requests integer;
  _is_admitted boolean;
  _is_day_over boolean := false;
  _room integer[];
  _took integer[] := array_fill(0, array[_n]);
  _ats bigint[];
  _keeps integer[];
  _results bigint[];
begin
  insert into proxylist.usage (kind, id, at, latest, day, requests)
  select s.kind, s.id, '{}', 0, 0, 0 from unnest(_kinds, _ids) s (kind, id)
  where not exists (
    select from proxylist.usage u where u.kind = s.kind collate "C" and u.id = s.id collate "C")
  order by s.kind collate "C", s.id collate "C"
  on conflict do nothing;
  perform 1 from unnest(_kinds, _ids) s (kind, id)
    cross join lateral (
      select from proxylist.usage u
      where u.kind = s.kind collate "C" and u.id = s.id collate "C" for update
    ) u;
  _now := proxylist.now_ms();
  _results := array[_now];
  for _row in
    select u.at, u.latest, u.day, u.requests, u.hour, u.hour_requests, u.hours
    from unnest(_kinds, _ids) s (kind, id)
    cross join lateral (
      select * from proxylist.usage u
      where u.kind = s.kind collate "C" and u.id = s.id collate "C" offset 0
    ) u
  loop
    _i := _i + 1;
    _at := greatest(_now, _row.latest);
    _m := cardinality(_row.at);
    _counted := 0;
    _oldest := 0;
    if _limits[_i] is not null then
      _counted := least(_limits[_i], _m - width_bucket(_at - _windows[_i], _row.at));
      if _counted > 0 then _oldest := _row.at[_m - _counted + 1]; end if;
    end if;
    _requests := case when _row.day = _at / 86400000 then _row.requests else 0 end;
    _room := _room || least(
      coalesce(_limits[_i] - _counted, 2147483647), coalesce(_dailies[_i] - _requests, 2147483647));
    _ats := _ats || _at;
    _keeps := _keeps || _counted;
    _results := _results || array[_row.latest, _counted, _oldest, _requests];
    _is_day_over := _is_day_over or (_row.hour / 24 <> _at / 86400000
      and (_row.hour_requests <> 0 or cardinality(_row.hours) > 0));
  end loop;
  if _i < _n then return null; end if;

  for _k in 1 .. cardinality(_ends) loop
    _is_admitted := true;
    for _i in _j .. _ends[_k] loop
      _is_admitted := _is_admitted and _room[_positions[_i]] > 0;
    end loop;
    if _is_admitted then
      for _i in _j .. _ends[_k] loop
        _m := _positions[_i];
        _room[_m] := _room[_m] - 1;
        _took[_m] := _took[_m] + 1;
      end loop;
    end if;
    _j := _ends[_k] + 1;
  end loop;

  if _is_day_over then perform proxylist.end_days(_kinds, _ids, _ats, _took); end if;
  update proxylist.usage u set
    at = u.at[cardinality(u.at) - w.keep + 1:]
      || array_fill(w.at, array[case when w.window_limit is null then 1 else w.took end]),
    latest = w.at,
    day = w.at / 86400000,
    requests = case when u.day = w.at / 86400000 then u.requests else 0 end + w.took,
    hour = w.at / 3600000,
    hour_requests = w.took
      + case when u.hour = w.at / 3600000 then u.hour_requests else 0 end,
    hours = case when u.hour = w.at / 3600000 then u.hours
      else proxylist.add_hours(u.hours, proxylist.one_hour(u.hour, u.hour_requests)) end
  from unnest(_kinds, _ids, _took, _ats, _keeps, _limits) w (kind, id, took, at, keep, window_limit)
  where u.kind = w.kind collate "C" and u.id = w.id collate "C" and w.took > 0;
  return array_to_string(_results, ',');
end
$$;

-- Moves the hours of subjects that are admitted on another day than the one that they have hours of.
create function proxylist.end_days(_kinds text[], _ids text[], _ats bigint[], _took integer[])
returns void language plpgsql as $$
begin
  select array_agg(s.kind), array_agg(s.id) into _kinds, _ids
  from unnest(_kinds, _ids, _ats, _took) s (kind, id, at, took)
  join proxylist.usage u on u.kind = s.kind collate "C" and u.id = s.id collate "C"
  where s.took > 0 and u.hour / 24 <> s.at / 86400000;
  perform proxylist.move_hours(_kinds, _ids);
  update proxylist.usage u set hour_requests = 0, hours = '{}'
  from unnest(_kinds, _ids) s (kind, id)
  where u.kind = s.kind collate "C" and u.id = s.id collate "C";
end
$$;

-- Gives admissions back, each at its instant; in the order of the primary key.
create function proxylist.give_back(_kinds text[], _ids text[], _instants bigint[])
returns void language plpgsql as $$
declare
  _row proxylist.usage;
  _at bigint;
  _place integer;
  _hour integer;
begin
  for _i in 1 .. cardinality(_ids) loop
    _at := _instants[_i];
    _hour := _at / 3600000;
    select * into _row from proxylist.usage u
      where u.kind = _kinds[_i] and u.id = _ids[_i] for update;
    if found then
      select max(n) into _place from unnest(array_positions(_row.at, _at)) n;
      update proxylist.usage u set
        at = case when _place is null then u.at
          else u.at[:_place - 1] || u.at[_place + 1:] end,
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
-- answer n has the asks up to _ends[n], each of networks for the set at a position; all of its sets
-- have room for it, or it adds nothing. Returns numbers: the clock, then of each ask how many networks
-- the set had, and how many the answer has besides. `null`: a set was removed meanwhile, nothing was
-- added.
create function proxylist.consume(
  _kinds text[], _ids text[], _sets text[], _days integer[],
  _positions integer[], _quotas bigint[], _asked text[], _ends integer[]
) returns text language plpgsql as $$
declare
  _locked integer;
  _results bigint[];
  _j integer := 1;
  _used integer;
  _more text[];
  _added text[]; -- of each ask of an answer, as literals
  _has_room boolean;
  _p integer;
begin
  insert into proxylist.networks (kind, id, network_set, day, networks)
  select s.kind, s.id, s.network_set, s.day, '{}'
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
  for _item in 1 .. cardinality(_ends) loop
    _has_room := true;
    _added := '{}';
    for _k in _j .. _ends[_item] loop
      _p := _positions[_k];
      select cardinality(n.networks),
        array(select unnest(_asked[_k]::text[]) collate "C" except select unnest(n.networks))
      into _used, _more from proxylist.networks n
      where n.kind = _kinds[_p] and n.id = _ids[_p] and n.network_set = _sets[_p] and n.day = _days[_p];
      _has_room := _has_room and _used + cardinality(_more) <= _quotas[_k];
      _added := _added || _more::text;
      _results := _results || _used::bigint || cardinality(_more)::bigint;
    end loop;
    if _has_room then
      for _k in _j .. _ends[_item] loop
        continue when _added[_k - _j + 1] = '{}';
        _p := _positions[_k];
        update proxylist.networks n set networks = n.networks || _added[_k - _j + 1]::text[]
        where n.kind = _kinds[_p] and n.id = _ids[_p] and n.network_set = _sets[_p]
          and n.day = _days[_p];
      end loop;
    end if;
    _j := _ends[_item] + 1;
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
