-- What several machines share: keys, plans, usage, and the list as a log of changes. Times are Unix
-- milliseconds. Runs again at each upgrade: what exists stays.
create schema if not exists proxylist;

-- The clock that decides limits, for all machines. Tests replace it.
create or replace function proxylist.now_ms() returns bigint language sql volatile parallel safe
  return floor(extract(epoch from clock_timestamp()) * 1000)::bigint;

-- One row. The copy of a list knows by `id` which database it belongs to.
create table if not exists proxylist.installation (
  one boolean primary key default true check (one),
  schema integer not null,           -- its version
  id uuid not null,
  keys_version bigint not null,      -- numbers the changes of keys and plans
  has_old_list boolean not null default false -- schema 1 had a list, which is in the copies of nodes
);
insert into proxylist.installation values (true, 0, gen_random_uuid(), 0) on conflict do nothing;

create table if not exists proxylist.plans (
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

create table if not exists proxylist.keys (
  id text collate "C" primary key,   -- public
  hash bytea not null unique,        -- SHA-256 of the key, which itself is stored nowhere
  prefix text not null,              -- the key's first characters, to recognise it by
  label text not null,               -- the customer may see it
  note text not null,                -- only the operator sees it
  plan text collate "C" references proxylist.plans, -- null: a temporary key
  created_at bigint not null,
  expires_at bigint,
  revoked_at bigint,
  last_seen bigint,                  -- the last admission, once `usage` has forgotten it
  version bigint not null,           -- the change that wrote it
  callers text not null default ''    -- the networks that may use it, separated by commas; '': all
);
create index if not exists keys_by_version on proxylist.keys (version);

-- The secrets that a key had before it was rotated, as long as they are valid.
create table if not exists proxylist.old_secrets (
  hash bytea primary key,
  key_id text collate "C" not null references proxylist.keys on delete cascade,
  expires_at bigint not null
);
create index if not exists old_secrets_by_key on proxylist.old_secrets (key_id);

-- The changes of the list. A version is written once: a second leader that writes it fails. Each row names the
-- mark of the version before, because a failover may lose versions and use their numbers again.
create table if not exists proxylist.list_log (
  version bigint primary key,
  kind text not null,                -- delta: what changed; snapshot: all rows of the version before
  after text not null,               -- the mark of the version before; '' before the first
  mark text not null,                -- random
  changed bigint not null,           -- rows in `body`
  rows bigint not null,              -- rows of the list
  imported text not null,            -- a random mark of the last import that no feed made
  at bigint not null default proxylist.now_ms(),
  body bytea not null                -- see body.ts; compressed
);
alter table proxylist.list_log alter body set storage external;

-- Imports that wait for the leader, and their results, which stay for some minutes.
create table if not exists proxylist.imports (
  id bigint generated always as identity primary key,
  mode text not null,                -- an ImportMode, or `retain`
  body bytea not null,
  result json,                       -- counts, or why it failed; null: not merged yet
  at bigint not null default proxylist.now_ms()
);
alter table proxylist.imports alter body set storage external;

-- The machines that serve, as each says of itself every second.
create table if not exists proxylist.nodes (
  node text collate "C" not null,    -- the name of the host
  address text collate "C" not null, -- where it listens
  list_version bigint not null,      -- that its copy of the list has
  lag_seconds double precision not null, -- since its copies were last known to be the newest
  seen bigint not null,
  primary key (node, address)
);

-- The states of the feeds, which the leader fetches.
create table if not exists proxylist.feeds (
  id text collate "C" primary key,
  state json not null
);

-- What the checker last said of itself, as JSON. At most one row.
create table if not exists proxylist.checker (
  one boolean primary key default true check (one),
  status text not null
);

-- What subjects of the rate limit have used: one row each, which an admission locks. A statement that locks
-- several rows does so in the order of their primary key. A page has room for the next version of its rows, so an
-- update touches no index and leaves nothing to vacuum. A log of admissions took three to four times the CPU;
-- leases of quota would refuse before it is used up, and a node that owns keys would lose their windows when it dies.
create table if not exists proxylist.usage (
  kind text collate "C" not null,    -- key, demo or temp
  id text collate "C" not null,      -- of the key, or the client address
  at bigint[] not null,              -- the last admissions that count, oldest first
  latest bigint not null,            -- the last admission, also one that was refunded
  day integer not null,              -- the UTC day of `requests`
  requests integer not null,         -- as the daily limit counts them
  primary key (kind, id)
) with (fillfactor = 50);

-- The networks of a subject on a UTC day.
create table if not exists proxylist.networks (
  kind text collate "C" not null,
  id text collate "C" not null,
  network_set text collate "C" not null, -- served: of the proxies; callers: of the clients
  day integer not null,
  network text collate "C" not null,
  primary key (kind, id, network_set, day, network)
);

-- The use of a key by UTC day.
create table if not exists proxylist.days (
  day integer not null,
  key_id text collate "C" not null,  -- demo: of all who use it
  requests integer not null,         -- admitted
  records bigint not null,           -- in the answers: a list of a million rows, often
  refused bigint not null,           -- 429
  hours integer[] not null,          -- admitted in each hour, up to the last hour with any
  primary key (day, key_id)
) with (fillfactor = 50);

-- A row that is written to see whether commits are possible.
create table if not exists proxylist.probes (
  one boolean primary key default true check (one),
  n bigint not null
);
insert into proxylist.probes values (true, 0) on conflict do nothing;
