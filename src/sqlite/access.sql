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

create table usage (
  subject text primary key,          -- key:ID, demo:ADDRESS or temp:ADDRESS
  last_at integer not null,          -- the last admission
  day integer not null,              -- UTC day that `requests` counts
  requests integer not null,
  admissions blob not null           -- the last admissions, oldest first, 8-byte floats
) strict, without rowid;

create table networks (
  subject text not null,
  day integer not null,
  network text not null,
  primary key (subject, day, network)
) strict, without rowid;
