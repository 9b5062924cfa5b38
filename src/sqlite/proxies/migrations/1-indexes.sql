-- In the order of an answer, after what a filter names exactly. They hold every column that a
-- filter compares, so that rows are filtered without reading the table. Apart from the tables,
-- because a large import builds them again.
create index if not exists proxies_by_age on proxies
  (checked_at desc, ping_ms, id, type, anon, works, speed, services, country, city);
create index if not exists proxies_by_country on proxies
  (country, checked_at desc, ping_ms, id, type, anon, works, speed, services, city);
create index if not exists proxies_by_city on proxies (city, checked_at desc, ping_ms, id);
create index if not exists proxies_by_port on proxies (id & 65535, checked_at desc, ping_ms, id);
