-- The use of keys by hour leaves the log of admissions and its snapshot. All of it is in table `days`.
with
-- Days that were moved to table `days` after their chunk of the snapshot was written.
moved as (
  select entry.value ->> 1 as key_id, entry.value ->> 3 as day
  from batches, json_each(admissions) entry
  where entry.value ->> 0 = 'moved'
),
unmoved as (
  select key.value ->> 0 as key_id, day.value ->> 0 as day, day.value ->> 1 as records,
    day.value ->> 2 as refused, day.value ->> 3 as first_hour, day.value -> 4 as counts
  from snapshot, json_each(history) key, json_each(key.value -> 2) day
),
by_hour as (
  select key_id, day, records, refused, of_day.value as hour,
    iif(of_day.value >= first_hour, coalesce(counts ->> (of_day.value - first_hour), 0), 0) as requests
  from unmoved,
    json_each('[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23]') of_day
  where (key_id = 'demo' or key_id in (select keys.id from keys))
    and (key_id, day) not in (select key_id, day from moved)
)
insert into days (day, key_id, requests, records, refused, hours)
select day, key_id, max(sum(requests), 0), records, refused,
  json_group_array(max(requests, 0) order by hour)
from by_hour group by key_id, day
on conflict do update set
  requests = days.requests + excluded.requests,
  records = days.records + excluded.records,
  refused = days.refused + excluded.refused,
  hours = (
    select json_group_array(coalesce(days.hours ->> added.key, 0) + added.value order by added.key)
    from json_each(excluded.hours) added
  );

update keys set last_seen = max(coalesce(last_seen, 0), seen.ms)
from (
  select key.value ->> 0 as key_id, key.value ->> 1 as ms from snapshot, json_each(history) key
) seen
where seen.key_id = keys.id and seen.ms > 0;

update batches set admissions = (
  select json_group_array(json(entry.value)) from json_each(admissions) entry
  where entry.value ->> 0 not in ('use', 'moved')
) where admissions like '%["use",%' or admissions like '%["moved",%';

alter table snapshot drop column history;
-- A prune measures ages from the last admission.
drop table passed;
