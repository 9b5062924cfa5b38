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
  source text not null,
  last_success_at bigint,
  rows integer,
  rejected integer not null default 0,
  error text not null default '',
  failures integer not null default 0,
  next_try_at bigint not null,
  attempts integer not null default 0,
  etag text not null default '',
  last_modified text not null default '',
  digest text not null default '',
  options text not null default ''
);
