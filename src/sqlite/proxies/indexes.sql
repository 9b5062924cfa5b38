-- In the order of an answer, behind what a filter names exactly. Those by age and by country hold
-- whole rows, so that a select never touches the table. Those by city and by port do not: that would
-- cost an import of a million rows a second and 40 MB. A large import runs this script, too: it
-- writes the rows without indexes and builds them again.
create index proxies_by_age on proxies
  (checked_at desc, ping_ms, id, type, anon, works, speed, services, country, city, ip_out);
create index proxies_by_country on proxies
  (country, checked_at desc, ping_ms, id, type, anon, works, speed, services, city, ip_out);
create index proxies_by_city on proxies (city, checked_at desc, ping_ms, id);
create index proxies_by_port on proxies (id & 65535, checked_at desc, ping_ms, id);
