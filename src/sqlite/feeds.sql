-- The state of each feed. It can be lost: the feeds are then fetched again in full.
create table feeds (
  id text primary key,
  source text not null,
  last_success_at integer,
  rows integer,
  rejected integer not null default 0,
  error text not null default '',
  failures integer not null default 0,
  next_try_at integer not null,
  attempts integer not null default 0,
  etag text not null default '',
  last_modified text not null default '',
  digest text not null default '',
  options text not null default '',
  leased_by integer,
  leased_until integer not null default 0
) strict, without rowid;
