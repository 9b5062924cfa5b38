-- The state of each feed, as JSON. If it is lost, the feeds are fetched again in full.
create table feeds (
  id text primary key,
  state text not null
) strict, without rowid;
