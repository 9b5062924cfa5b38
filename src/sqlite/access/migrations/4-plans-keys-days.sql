-- `demo` and `temp` become plans. A plan that an operator gave one of these names had no effect on
-- demo and temporary keys; one that keys use stays, under another name.
alter table plans add column downloads integer default 4;        -- null: unlimited
alter table plans add column enabled integer not null default 1;  -- 0: its keys are refused
insert or ignore into plans
  select name || '.old', burst_requests, burst_seconds, daily, subnets, clients, count, 4, 1
  from plans p where name in ('demo', 'temp') and exists (select 1 from keys where plan = p.name);
update keys set plan = plan || '.old' where plan in ('demo', 'temp');
delete from plans where name in ('demo', 'temp');
insert into plans values
  ('demo', 2, 60, null, null, null, 50, 1, 1),
  ('temp', 2, 3600, null, null, null, 30, 1, 1);

-- The secrets that a key had before it was rotated, as long as they are valid.
create table old_secrets (
  hash blob primary key,
  key_id text not null references keys (id) on delete cascade,
  expires_at integer not null
) strict, without rowid;

-- The last admission of a key that is not in the log of admissions any more.
alter table keys add column last_seen integer;

-- The use of keys in the log of admissions, as in `usage`: what is not in table `days` yet.
alter table snapshot add column history text not null default '[]';
  -- JSON: [[key id, last admission, [[day, records, refused, first hour, requests of each hour], …]], …]

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
-- Of the requests that the snapshot includes, the hours are not known.
insert into days
  select at / 86400000, id, requests, 0, 0, '[]'
  from (
    select value ->> 1 as id, value ->> 2 as requests,
      (select sum(value) from json_each(subject.value -> 3)) as at
    from snapshot, json_each(usage) as subject where value ->> 0 = 'key'
  )
  where id in (select id from keys) and at > 0;
