-- In the order of an answer, behind what a filter names exactly. They hold every column that a
-- filter looks at, so that rows are judged without touching the table. Apart from the tables,
-- because a large import builds them anew.
create index if not exists proxies_by_age on proxies
  (checked_at desc, ping_ms, id, type, anon, works, speed, services, country, city);
create index if not exists proxies_by_country on proxies
  (country, checked_at desc, ping_ms, id, type, anon, works, speed, services, city);
create index if not exists proxies_by_city on proxies (city, checked_at desc, ping_ms, id);
create index if not exists proxies_by_port on proxies (id & 65535, checked_at desc, ping_ms, id);
