-- The list of proxies; its columns are those of the list in SQLite. One row says where it stands:
-- what changes the list locks it, so versions are in the order of commits.
create table proxylist.list (
  one boolean primary key default true check (one),
  version bigint not null,
  removed_before bigint not null,    -- tombstones up to this version were removed
  -- Found without reading all rows, and without an index that would cost an import a second.
  rows bigint not null,
  newest bigint,                     -- the last check; null: there is no row
  oldest bigint                      -- no check is earlier
);
insert into proxylist.list values (true, 0, 0, 0, null, null);

-- Each version of the list with a random mark: after a failover a copy may hold one that was lost.
create table proxylist.list_versions (
  version bigint primary key,
  mark uuid not null,
  committed_at bigint not null
);
insert into proxylist.list_versions values (0, gen_random_uuid(), proxylist.now_ms());

create table proxylist.cities (
  id integer primary key,
  name text not null,                -- default name
  name_en text not null,
  version bigint not null,
  unique (name, name_en)
);
create index cities_by_version on proxylist.cities (version);

-- The id of a pair of names; stores a new pair. Only what has locked the list may call it.
create function proxylist.city_id(city_name text, city_name_en text, import_version bigint)
returns integer language plpgsql as $$
declare
  found_id integer;
begin
  if city_name = '' and city_name_en = '' then
    return 0;
  end if;
  select id into found_id from proxylist.cities where name = city_name and name_en = city_name_en;
  if found_id is null then
    insert into proxylist.cities (id, name, name_en, version)
      select coalesce(max(id), 0) + 1, city_name, city_name_en, import_version from proxylist.cities
      returning id into found_id;
  end if;
  return found_id;
end $$;

create table proxylist.proxies (
  id bigint primary key,             -- the address: IPv4 as 32 bits, then the port as 16
  checked_at bigint not null,        -- Unix seconds
  ping_ms bigint not null,
  type smallint not null,
  anon smallint not null,
  works smallint not null,
  speed bigint not null,
  services integer not null,
  country integer not null,
  city integer not null,
  ip_out text not null,              -- '' unknown; IPv4 as a decimal number; IPv6 as text
  version bigint not null            -- the import that wrote it
);
create index proxies_by_version on proxylist.proxies (version);

-- Proxies that were removed, for the copies of other machines.
create table proxylist.removed (
  id bigint primary key,
  version bigint not null
);
create index removed_by_version on proxylist.removed (version);
