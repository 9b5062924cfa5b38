-- What the checker remembers of each address, and its status. It can be lost: the checker then begins with the list.
create table candidates (
  id integer primary key,      -- the address, as in the list
  queue integer not null,      -- position in QUEUES
  next_at integer not null,    -- when it is due, Unix milliseconds
  idle_at integer not null,    -- when it may be checked early
  ok_at integer,               -- its last success
  memory text not null         -- the rest of it, as JSON
) strict;

-- Who is due, in order; and whether those may come early that come next.
create index candidates_due on candidates (queue, next_at, idle_at);
-- Who may come early, where these are few. Not those that were never checked: so adding many is quick.
create index candidates_idle on candidates (idle_at, next_at) where idle_at < next_at;
-- How many of the living are fresh.
create index candidates_fresh on candidates (ok_at) where queue = 0;

-- One row: the ledger and the status, as JSON.
create table checker (
  one integer primary key check (one = 1),
  ledger text,
  status text
) strict;
