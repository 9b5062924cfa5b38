-- What subjects of the rate limit have used: one row each, which an admission locks.
create table proxylist.usage (
  kind text collate "C" not null,    -- key, demo or temp
  id text collate "C" not null,      -- of the key, or the client address
  at bigint[] not null,              -- the last admissions that count, oldest first
  latest bigint not null,            -- the last admission, also one given back
  day integer not null,              -- the UTC day of `requests`
  requests integer not null,         -- as the daily limit counts them
  primary key (kind, id)
) with (fillfactor = 50);

-- The networks of a subject on a UTC day.
create table proxylist.networks (
  kind text collate "C" not null,
  id text collate "C" not null,
  network_set text collate "C" not null, -- served: of the proxies; callers: of the clients
  day integer not null,
  networks text[] collate "C" not null,
  primary key (kind, id, network_set, day)
) with (fillfactor = 50);

-- The use of a key by UTC day.
create table proxylist.days (
  day integer not null,
  key_id text collate "C" not null,  -- demo: of all who use it
  requests integer not null,         -- admitted
  records integer not null,          -- in the answers
  refused integer not null,          -- 429
  hours integer[] not null,          -- admitted in each hour, up to the last hour with any
  primary key (day, key_id)
) with (fillfactor = 50);
