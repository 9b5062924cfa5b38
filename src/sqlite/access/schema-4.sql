-- The networks that may use a key: addresses and CIDR ranges, separated by commas; '' is all.
alter table keys add column callers text not null default '';
drop trigger key_changed;
create trigger key_changed
  after update of hash, label, callers, plan, expires_at, revoked_at on keys
begin
  update key_changes set n = n + 1;
end;
