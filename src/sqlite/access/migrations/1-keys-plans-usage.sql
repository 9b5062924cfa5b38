-- Keys, plans and what has been used: small, precious. Times are Unix milliseconds.
create table plans (
  name text primary key,
  burst_requests integer,
  burst_seconds integer,
  daily integer,
  subnets integer,
  clients integer,
  count integer
) strict, without rowid;

create table keys (
  id text primary key,               -- public
  hash blob not null unique,         -- SHA-256 of the key, which itself is stored nowhere
  prefix text not null,              -- the key's first characters, to recognise it by
  label text not null,
  plan text references plans (name), -- null: a temporary key
  created_at integer not null,
  expires_at integer,
  revoked_at integer
) strict, without rowid;

-- The log of admissions: append only, save that what no window looks at any more is removed.
-- The last `kept` rows of a subject are all that is known, and needed, of it.
create table admissions (
  id integer primary key,            -- in order of admission
  subject text not null,             -- key:ID, demo:ADDRESS or temp:ADDRESS
  at integer not null,
  requests integer not null,         -- of the subject on the UTC day of `at`, with this one
  kept integer not null              -- rows of the subject, this one included
) strict;

create table networks (
  subject text not null,
  day integer not null,
  network text not null,
  primary key (subject, day, network)
) strict, without rowid;
