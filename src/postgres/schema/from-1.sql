-- From schema 1 to 2. Keys, plans and usage stay. The list was in tables, and each node has a copy of it. The first
-- node with a copy that leads writes it into the log; nodes without one wait for that.
select proxylist.move_hours(array_agg(kind), array_agg(id)) from proxylist.usage;
drop function proxylist.admit(text[], text[], integer[], integer[], bigint[], integer[], integer[], integer[], boolean);
drop function proxylist.consume, proxylist.probe, proxylist.prune_usage, proxylist.keep_ms, proxylist.move_hours,
  proxylist.add_days, proxylist.one_hour, proxylist.total, proxylist.city_id;
drop aggregate proxylist.sum_hours(integer[]);
alter table proxylist.usage drop hour, drop hour_requests, drop hours;

alter table proxylist.networks rename to bitmaps;
alter index proxylist.networks_pkey rename to bitmaps_pkey;
create table proxylist.networks (
  kind text collate "C" not null,
  id text collate "C" not null,
  network_set text collate "C" not null,
  day integer not null,
  network text collate "C" not null,
  primary key (kind, id, network_set, day, network)
);
insert into proxylist.networks
  select kind, id, network_set, day,
      case network_set when 'served' then n::text else format('%s.%s.0.0/16', n >> 8, n & 255) end
    from proxylist.bitmaps, generate_series(0, 65535) n where get_bit(networks, n) = 1
  union all
  select kind, id, network_set, day, unnest(others) from proxylist.bitmaps;
drop table proxylist.bitmaps;

alter table proxylist.installation add has_old_list boolean not null default false;
update proxylist.installation set has_old_list = exists (select from proxylist.proxies);
drop table proxylist.list, proxylist.list_versions, proxylist.cities, proxylist.proxies, proxylist.removed,
  proxylist.keys_versions, proxylist.removed_keys;
alter table proxylist.installation drop passed;
