-- An address has a set of types, see `proxies/types.ts`; before, it had a position in TYPES.
drop index proxies_by_age;
drop index proxies_by_country;
alter table proxies rename column type to types;
update proxies set types = 1 << types;

create index proxies_by_age on proxies
  (checked_at desc, ping_ms, id, types, anon, works, speed, services, country, city, ip_out);
create index proxies_by_country on proxies
  (country, checked_at desc, ping_ms, id, types, anon, works, speed, services, city, ip_out);
