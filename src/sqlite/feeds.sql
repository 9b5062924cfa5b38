-- The state of each feed, as JSON. It can be lost: the feeds are then fetched again in full.
create table feeds (
  id text primary key,
  state text not null,
  leased_by integer,
  leased_until integer not null default 0
) strict, without rowid;
