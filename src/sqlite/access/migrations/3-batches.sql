-- Admissions are written as one row per transaction instead of one per admission, and a snapshot of
-- what they add up to keeps that log short. Old admissions become batches of a thousand.
create table batches (
  id integer primary key,            -- in order of commit, without gaps; never used again
  admissions text not null           -- JSON: [[kind, subject id, at, requests, kept], …] in order
) strict;
insert into batches
  select batch, json_group_array(
    json_array(subject_kind, subject_id, at, requests, kept) order by id)
  from (select *, (row_number() over (order by id) - 1) / 1000 + 1 as batch from admissions)
  group by batch;
drop table admissions;

create table snapshot (
  chunk integer primary key,         -- subjects belong to a chunk by a hash of their id
  through integer not null,          -- the last batch whose admissions are included
  usage text not null                -- JSON: [[kind, subject id, requests, gaps], …]; gaps are the
                                     -- first `at` and the milliseconds from each to the next
) strict;
