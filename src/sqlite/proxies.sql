-- The list of proxies: bulky, can be imported again. Unknown numbers are values no filter admits
-- (speed and works -1, ping_ms 2^53-1), so that no statement has to speak of null.
create table proxies (
  id integer primary key,            -- the address: IPv4 as 32 bits, then the port as 16
  checked_at integer not null,       -- Unix seconds
  ping_ms integer not null,
  type integer not null,             -- position in TYPES
  anon integer not null,             -- 0 unknown, else 1 + position in ANONS
  works integer not null,
  speed integer not null,
  services integer not null,         -- bit n: SERVICES[n]
  country text not null,             -- upper case, '' unknown
  city text not null,
  city_en text not null,
  city_key text not null,            -- city, folded
  city_en_key text not null,         -- the name lang=en shows, folded
  ip_out text not null
) strict;

create index proxies_by_age on proxies (checked_at desc, ping_ms, id);
