-- A subject becomes two columns, kind and id, instead of one text with colons.
create table new_admissions (
  id integer primary key,            -- in order of admission
  subject_kind text not null,        -- key, demo or temp
  subject_id text not null,          -- id of the key, or the client address
  at integer not null,
  requests integer not null,         -- of the subject on the UTC day of `at`, with this one
  kept integer not null              -- rows of the subject, this one included
) strict;
insert into new_admissions
  select id, substr(subject, 1, instr(subject, ':') - 1), substr(subject, instr(subject, ':') + 1),
    at, requests, kept
  from admissions order by id;
drop table admissions;
alter table new_admissions rename to admissions;

create table new_networks (
  subject_kind text not null,
  subject_id text not null,
  network_set text not null,         -- served: of the proxies; callers: of the clients
  day integer not null,
  network text not null,
  primary key (subject_kind, subject_id, network_set, day, network)
) strict, without rowid;
insert into new_networks
  select 'key', substr(subject, 5, length(subject) - 11), substr(subject, -6), day, network
  from networks where subject like 'key:%:served';
insert into new_networks
  select 'key', substr(subject, 5, length(subject) - 12), substr(subject, -7), day, network
  from networks where subject like 'key:%:callers';
drop table networks;
alter table new_networks rename to networks;
