-- Counts the changes of keys and plans, so that a server knows which commits of other processes make its
-- cache of keys stale: most of them are admissions.
create table key_changes (
  one integer primary key check (one = 1),
  n integer not null
) strict;
insert into key_changes values (1, 0);
create trigger key_added after insert on keys begin
  update key_changes set n = n + 1;
end;
create trigger key_changed after update of hash, label, plan, expires_at, revoked_at on keys begin
  update key_changes set n = n + 1;
end;
create trigger key_removed after delete on keys begin
  update key_changes set n = n + 1;
end;
create trigger plan_set after insert on plans begin -- `insert or replace`
  update key_changes set n = n + 1;
end;
create trigger plan_removed after delete on plans begin
  update key_changes set n = n + 1;
end;

-- Only limits stay in the log of admissions and its snapshot. Charts have the use of keys in table `days`;
-- the use that schema 1 had not moved there yet is dropped.
update batches set admissions = (
  select json_group_array(json(entry.value)) from json_each(admissions) entry
  where entry.value ->> 0 not in ('use', 'moved')
) where admissions like '%["use",%' or admissions like '%["moved",%';
alter table snapshot drop column history;
drop table passed;
