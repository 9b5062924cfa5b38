-- What several machines share: keys, plans, usage and the list. Times are Unix milliseconds.
create schema if not exists proxylist;

-- The clock that decides limits, for all machines: Unix milliseconds. Tests replace it.
create function proxylist.now_ms() returns bigint language sql volatile parallel safe
  return floor(extract(epoch from clock_timestamp()) * 1000)::bigint;

-- One row. A data directory knows by `id` of which database it holds copies.
create table proxylist.installation (
  one boolean primary key default true check (one),
  schema integer not null,           -- its version; builds before the first release had a column `version`
  id uuid not null,
  keys_version bigint not null,      -- the last change of keys and plans, which it numbers
  passed bigint                      -- the time that ages of usage are measured from
);
insert into proxylist.installation values (true, 0, gen_random_uuid(), 0);

-- The last versions of keys and plans, each with a random mark: after a failover a copy may hold one
-- that was lost. A copy at a version that is not here is made again as a whole.
create table proxylist.keys_versions (
  version bigint primary key,
  mark uuid not null
);
insert into proxylist.keys_versions values (0, gen_random_uuid());

create table proxylist.plans (
  name text collate "C" primary key,
  burst_requests integer,
  burst_seconds integer,
  daily bigint,
  subnets bigint,
  clients bigint,
  count bigint,
  downloads bigint,
  enabled boolean not null
);

create table proxylist.keys (
  id text collate "C" primary key,   -- public
  hash bytea not null unique,        -- SHA-256 of the key, which itself is stored nowhere
  prefix text not null,              -- the key's first characters, to recognise it by
  label text not null,               -- the customer may see it
  note text not null,                -- only the operator sees it
  plan text collate "C" references proxylist.plans, -- null: a temporary key
  created_at bigint not null,
  expires_at bigint,
  revoked_at bigint,
  last_seen bigint,                  -- the last admission that is not in `usage` any more
  version bigint not null            -- the change that wrote it
);
create index keys_by_version on proxylist.keys (version);

-- The secrets that a key had before it was rotated, as long as they are valid.
create table proxylist.old_secrets (
  hash bytea primary key,
  key_id text collate "C" not null references proxylist.keys on delete cascade,
  expires_at bigint not null
);
create index old_secrets_by_key on proxylist.old_secrets (key_id);

-- Keys that were removed since the oldest of `keys_versions`, for the copies of other machines.
create table proxylist.removed_keys (
  id text collate "C" primary key,
  version bigint not null
);

-- The list of proxies; its columns are those of the list in SQLite. One row says where it stands:
-- what changes the list locks it, so versions are in the order of commits.
create table proxylist.list (
  one boolean primary key default true check (one),
  version bigint not null,
  removed_before bigint not null,    -- tombstones up to this version were removed
  -- Found without reading all rows, and without an index that would cost an import a second.
  rows bigint not null,
  newest bigint,                     -- the last check; null: there is no row
  oldest bigint,                     -- no check is earlier
  imported uuid not null             -- a random mark of the last import that no feed made
);
insert into proxylist.list values (true, 0, 0, 0, null, null, gen_random_uuid());

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
  types bigint not null,
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

-- The machines that serve, as each says of itself every second.
create table proxylist.nodes (
  node text collate "C" not null,    -- the name of the host
  address text collate "C" not null, -- where it listens
  list_version bigint not null,      -- that its copy of the list has
  lag_seconds double precision not null, -- since its copies were last known to be the newest
  seen bigint not null,
  primary key (node, address)
);

-- The states of the feeds, which one node fetches.
create table proxylist.feeds (
  id text collate "C" primary key,
  state json not null
);

-- What the checker last said of itself, as JSON. At most one row.
create table proxylist.checker (
  one boolean primary key default true check (one),
  status text not null
);
