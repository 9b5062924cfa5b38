-- The machines that serve, as each says of itself every second.
create table proxylist.nodes (
  node text collate "C" not null,    -- the name of the host
  address text collate "C" not null, -- where it listens
  list_version bigint not null,      -- that its copy of the list has
  lag_seconds double precision not null, -- since its copies were last known to be the newest
  seen bigint not null,
  primary key (node, address)
);

-- Each version of keys and plans with a random mark, as `list_versions` has of the list: after a
-- failover a copy may hold a version that was lost.
create table proxylist.keys_versions (
  version bigint primary key,
  mark uuid not null
);
insert into proxylist.keys_versions
  select keys_version, gen_random_uuid() from proxylist.installation;
create function proxylist.mark_keys() returns trigger language plpgsql as $$
begin
  insert into proxylist.keys_versions values (new.keys_version, gen_random_uuid());
  return null;
end $$;
create trigger mark_keys after update of keys_version on proxylist.installation
  for each row when (new.keys_version > old.keys_version) execute function proxylist.mark_keys();

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
