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
  country integer not null,          -- 0 unknown, else the two letters as 5 bits each
  city integer not null,             -- 0 unknown, else cities.id
  ip_out any not null                -- '' unknown; IPv4 as an integer; IPv6 as text
) strict;

-- Names are few and long, rows are many: rows hold numbers. An import removes names that no row has. Who
-- reads the list knows names by their ids: none is used again.
create table cities (
  id integer primary key autoincrement,
  name text not null,                -- default name
  name_en text not null,
  folded text not null,              -- both as they are compared
  folded_en text not null,
  unique (name, name_en)
) strict;

-- One row.
create table list (
  one integer primary key check (one = 1),
  imported text not null             -- a random mark of the last import that no feed made
) strict;
insert into list values (1, hex(randomblob(8)));

create index cities_by_name on cities (folded);
create index cities_by_english_name on cities (folded_en);

-- In the order of an answer, behind what a filter names exactly. Those by age and by country hold
-- whole rows, so that a select never touches the table. Those by city and by port do not: that would
-- cost an import of a million rows a second and 40 MB. A large import drops them, writes the rows, and
-- creates them again.
create index proxies_by_age on proxies
  (checked_at desc, ping_ms, id, type, anon, works, speed, services, country, city, ip_out);
create index proxies_by_country on proxies
  (country, checked_at desc, ping_ms, id, type, anon, works, speed, services, city, ip_out);
create index proxies_by_city on proxies (city, checked_at desc, ping_ms, id);
create index proxies_by_port on proxies (id & 65535, checked_at desc, ping_ms, id);
