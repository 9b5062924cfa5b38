-- The list of proxies; its columns are those of the list in SQLite. One row says where it stands:
-- an import first locks it, so imports are one after the other and versions in the order of commits.
create table proxylist.list (
  one boolean primary key default true check (one),
  version bigint not null,
  removed_before bigint not null     -- tombstones up to this version were removed
);
insert into proxylist.list values (true, 0, 0);

-- Each version of the list with a random mark: after a failover a copy may hold one that was lost.
create table proxylist.list_versions (
  version bigint primary key,
  mark uuid not null,
  committed_at bigint not null
);

create table proxylist.cities (
  id integer primary key,
  name text not null,                -- default name
  name_en text not null,
  version bigint not null,
  unique (name, name_en)
);
create index cities_by_version on proxylist.cities (version);

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
) with (fillfactor = 90);
create index proxies_by_version on proxylist.proxies (version);
create index proxies_by_check on proxylist.proxies (checked_at);

-- Proxies that were removed, for the copies of other machines.
create table proxylist.removed (
  id bigint primary key,
  version bigint not null
);
create index removed_by_version on proxylist.removed (version);
