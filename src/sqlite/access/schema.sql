-- Keys, plans and what has been used: small, precious. Times are Unix milliseconds; a limit that is
-- null is unlimited.
create table plans (
  name text primary key,
  burst_requests integer,
  burst_seconds integer,
  daily integer,
  subnets integer,
  clients integer,
  count integer,
  downloads integer,
  enabled integer not null           -- 0: its keys are refused
) strict, without rowid;

create table keys (
  id text primary key,               -- public
  hash blob not null unique,         -- SHA-256 of the key, which itself is stored nowhere
  prefix text not null,              -- the key's first characters, to recognise it by
  label text not null,               -- the customer may see it
  note text not null,                -- only the operator sees it
  plan text references plans (name), -- null: a temporary key
  created_at integer not null,
  expires_at integer,
  revoked_at integer,
  last_seen integer                  -- the last admission, when it is not in the log of them any more
) strict, without rowid;

-- The secrets that a key had before it was rotated, as long as they are valid.
create table old_secrets (
  hash blob primary key,
  key_id text not null references keys (id) on delete cascade,
  expires_at integer not null
) strict, without rowid;

-- The log of admissions: one row per transaction. A snapshot of what they add up to keeps it short.
create table batches (
  id integer primary key,            -- in order of commit, without gaps; never used again
  admissions text not null           -- JSON: [[kind, subject id, at, requests, kept], …] in order
) strict;

create table snapshot (
  chunk integer primary key,         -- subjects belong to a chunk by a hash of their id
  through integer not null,          -- the last batch whose admissions are included
  usage text not null,               -- JSON: [[kind, subject id, requests, gaps], …]; gaps are the
                                     -- first `at` and the milliseconds from each to the next
  history text not null             -- JSON: what is not in table `days` yet of the use of keys:
                                     -- [[key id, last admission, [[day, records, refused,
                                     -- first hour, requests of each hour], …]], …]
) strict;

-- The time that ages of usage are measured from (`access/passed-time.ts`); at most one row.
create table passed (
  one integer primary key check (one = 1),
  at integer not null
) strict;

create table networks (
  subject_kind text not null,
  subject_id text not null,
  network_set text not null,         -- served: of the proxies; callers: of the clients
  day integer not null,
  network text not null,
  primary key (subject_kind, subject_id, network_set, day, network)
) strict, without rowid;

-- The use of a key by UTC day. Days that are not over, and those that were not moved here yet, are
-- in the log of admissions and its snapshot.
create table days (
  day integer not null,
  key_id text not null,              -- demo: of all who use it
  requests integer not null,         -- admitted
  records integer not null,          -- in the answers
  refused integer not null,          -- 429
  hours text not null,               -- JSON: admitted in each hour, up to the last hour with any
  primary key (day, key_id)
) strict, without rowid;
