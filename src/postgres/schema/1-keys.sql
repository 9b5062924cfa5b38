-- What several machines share: keys, plans, usage and the list. Times are Unix milliseconds.
create schema if not exists proxylist;

-- The clock that decides limits, for all machines: Unix milliseconds. Tests replace it.
create function proxylist.now_ms() returns bigint language sql volatile parallel safe
  return floor(extract(epoch from clock_timestamp()) * 1000)::bigint;

-- One row. A data directory knows by `id` of which database it holds copies.
create table proxylist.installation (
  one boolean primary key default true check (one),
  version integer not null,          -- of the schema
  id uuid not null,
  keys_version bigint not null       -- the last change of keys and plans, which it numbers
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
  label text not null,
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
