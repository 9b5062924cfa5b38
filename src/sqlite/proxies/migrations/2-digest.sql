-- Generated once and then fixed, as every migration that was released. Replaced by 3 (checksum.ts).
-- One row: how many proxies, the sums of the hashes of proxies and of cities, and when (Unix ms).
create table digest (
  rows integer not null,
  sum integer not null,
  cities integer not null,
  written_at integer not null
) strict;

  delete from digest;
  insert into digest select rows, sum, cities, cast(unixepoch('subsec') * 1000 as integer) from (
  select count(*) as rows, coalesce(sum((((((((((((((((((((((id % 2147483647) * 1000003 + (checked_at)) % 2147483647) * 1000003 + (ping_ms)) % 2147483647) * 1000003 + (type)) % 2147483647) * 1000003 + (anon)) % 2147483647) * 1000003 + (works)) % 2147483647) * 1000003 + (speed)) % 2147483647) * 1000003 + (services)) % 2147483647) * 1000003 + (country)) % 2147483647) * 1000003 + (city)) % 2147483647) * 1000003 + (case typeof(ip_out) when 'integer' then ip_out
    when 'text' then iif(ip_out = '', -1, -2 - (((((((((((((((octet_length(ip_out)) * 1000003 + (('0x0' || hex(substr(cast(ip_out as blob), 1, 7))) ->> '$')) % 2147483647) * 1000003 + (('0x0' || hex(substr(cast(ip_out as blob), 8, 7))) ->> '$')) % 2147483647) * 1000003 + (('0x0' || hex(substr(cast(ip_out as blob), 15, 7))) ->> '$')) % 2147483647) * 1000003 + (('0x0' || hex(substr(cast(ip_out as blob), 22, 7))) ->> '$')) % 2147483647) * 1000003 + (('0x0' || hex(substr(cast(ip_out as blob), 29, 7))) ->> '$')) % 2147483647) * 1000003 + (('0x0' || hex(substr(cast(ip_out as blob), 36, 7))) ->> '$')) % 2147483647) * 1000003 + (('0x0' || hex(substr(cast(ip_out as blob), 43, 7))) ->> '$')) % 2147483647)) end)) % 2147483647) * (id % 2147483646 + 1) % 2147483647), 0) as sum,
    (select coalesce(sum((((((id % 2147483647) * 1000003 + ((
  with recursive pieces (start, sum) as (
    select 1, octet_length(name) union all
    select start + 7, (sum * 1000003 + (('0x0' || hex(substr(cast(name as blob), start, 7))) ->> '$')) % 2147483647
    from pieces where start <= octet_length(name)
  ) select sum from pieces order by start desc limit 1))) % 2147483647) * 1000003 + ((
  with recursive pieces (start, sum) as (
    select 1, octet_length(name_en) union all
    select start + 7, (sum * 1000003 + (('0x0' || hex(substr(cast(name_en as blob), start, 7))) ->> '$')) % 2147483647
    from pieces where start <= octet_length(name_en)
  ) select sum from pieces order by start desc limit 1))) % 2147483647) * (id % 2147483646 + 1) % 2147483647), 0) from cities) as cities
  from proxies not indexed);
create trigger if not exists cities_insert after insert on cities begin
    update digest set written_at = cast(unixepoch('subsec') * 1000 as integer),
      rows = rows + 0,
      cities = cities + (((((new.id % 2147483647) * 1000003 + ((
  with recursive pieces (start, sum) as (
    select 1, octet_length(new.name) union all
    select start + 7, (sum * 1000003 + (('0x0' || hex(substr(cast(new.name as blob), start, 7))) ->> '$')) % 2147483647
    from pieces where start <= octet_length(new.name)
  ) select sum from pieces order by start desc limit 1))) % 2147483647) * 1000003 + ((
  with recursive pieces (start, sum) as (
    select 1, octet_length(new.name_en) union all
    select start + 7, (sum * 1000003 + (('0x0' || hex(substr(cast(new.name_en as blob), start, 7))) ->> '$')) % 2147483647
    from pieces where start <= octet_length(new.name_en)
  ) select sum from pieces order by start desc limit 1))) % 2147483647) * (new.id % 2147483646 + 1) % 2147483647 ;
  end;
create trigger if not exists cities_delete after delete on cities begin
    update digest set written_at = cast(unixepoch('subsec') * 1000 as integer),
      rows = rows + 0,
      cities = cities +  - (((((old.id % 2147483647) * 1000003 + ((
  with recursive pieces (start, sum) as (
    select 1, octet_length(old.name) union all
    select start + 7, (sum * 1000003 + (('0x0' || hex(substr(cast(old.name as blob), start, 7))) ->> '$')) % 2147483647
    from pieces where start <= octet_length(old.name)
  ) select sum from pieces order by start desc limit 1))) % 2147483647) * 1000003 + ((
  with recursive pieces (start, sum) as (
    select 1, octet_length(old.name_en) union all
    select start + 7, (sum * 1000003 + (('0x0' || hex(substr(cast(old.name_en as blob), start, 7))) ->> '$')) % 2147483647
    from pieces where start <= octet_length(old.name_en)
  ) select sum from pieces order by start desc limit 1))) % 2147483647) * (old.id % 2147483646 + 1) % 2147483647;
  end;
create trigger if not exists cities_update after update on cities begin
    update digest set written_at = cast(unixepoch('subsec') * 1000 as integer),
      rows = rows + 0,
      cities = cities + (((((new.id % 2147483647) * 1000003 + ((
  with recursive pieces (start, sum) as (
    select 1, octet_length(new.name) union all
    select start + 7, (sum * 1000003 + (('0x0' || hex(substr(cast(new.name as blob), start, 7))) ->> '$')) % 2147483647
    from pieces where start <= octet_length(new.name)
  ) select sum from pieces order by start desc limit 1))) % 2147483647) * 1000003 + ((
  with recursive pieces (start, sum) as (
    select 1, octet_length(new.name_en) union all
    select start + 7, (sum * 1000003 + (('0x0' || hex(substr(cast(new.name_en as blob), start, 7))) ->> '$')) % 2147483647
    from pieces where start <= octet_length(new.name_en)
  ) select sum from pieces order by start desc limit 1))) % 2147483647) * (new.id % 2147483646 + 1) % 2147483647 - (((((old.id % 2147483647) * 1000003 + ((
  with recursive pieces (start, sum) as (
    select 1, octet_length(old.name) union all
    select start + 7, (sum * 1000003 + (('0x0' || hex(substr(cast(old.name as blob), start, 7))) ->> '$')) % 2147483647
    from pieces where start <= octet_length(old.name)
  ) select sum from pieces order by start desc limit 1))) % 2147483647) * 1000003 + ((
  with recursive pieces (start, sum) as (
    select 1, octet_length(old.name_en) union all
    select start + 7, (sum * 1000003 + (('0x0' || hex(substr(cast(old.name_en as blob), start, 7))) ->> '$')) % 2147483647
    from pieces where start <= octet_length(old.name_en)
  ) select sum from pieces order by start desc limit 1))) % 2147483647) * (old.id % 2147483646 + 1) % 2147483647;
  end;
create trigger if not exists proxies_insert after insert on proxies begin
    update digest set written_at = cast(unixepoch('subsec') * 1000 as integer),
      rows = rows + 1,
      sum = sum + (((((((((((((((((((((new.id % 2147483647) * 1000003 + (new.checked_at)) % 2147483647) * 1000003 + (new.ping_ms)) % 2147483647) * 1000003 + (new.type)) % 2147483647) * 1000003 + (new.anon)) % 2147483647) * 1000003 + (new.works)) % 2147483647) * 1000003 + (new.speed)) % 2147483647) * 1000003 + (new.services)) % 2147483647) * 1000003 + (new.country)) % 2147483647) * 1000003 + (new.city)) % 2147483647) * 1000003 + (case typeof(new.ip_out) when 'integer' then new.ip_out
    when 'text' then iif(new.ip_out = '', -1, -2 - (((((((((((((((octet_length(new.ip_out)) * 1000003 + (('0x0' || hex(substr(cast(new.ip_out as blob), 1, 7))) ->> '$')) % 2147483647) * 1000003 + (('0x0' || hex(substr(cast(new.ip_out as blob), 8, 7))) ->> '$')) % 2147483647) * 1000003 + (('0x0' || hex(substr(cast(new.ip_out as blob), 15, 7))) ->> '$')) % 2147483647) * 1000003 + (('0x0' || hex(substr(cast(new.ip_out as blob), 22, 7))) ->> '$')) % 2147483647) * 1000003 + (('0x0' || hex(substr(cast(new.ip_out as blob), 29, 7))) ->> '$')) % 2147483647) * 1000003 + (('0x0' || hex(substr(cast(new.ip_out as blob), 36, 7))) ->> '$')) % 2147483647) * 1000003 + (('0x0' || hex(substr(cast(new.ip_out as blob), 43, 7))) ->> '$')) % 2147483647)) end)) % 2147483647) * (new.id % 2147483646 + 1) % 2147483647 ;
  end;
create trigger if not exists proxies_delete after delete on proxies begin
    update digest set written_at = cast(unixepoch('subsec') * 1000 as integer),
      rows = rows + -1,
      sum = sum +  - (((((((((((((((((((((old.id % 2147483647) * 1000003 + (old.checked_at)) % 2147483647) * 1000003 + (old.ping_ms)) % 2147483647) * 1000003 + (old.type)) % 2147483647) * 1000003 + (old.anon)) % 2147483647) * 1000003 + (old.works)) % 2147483647) * 1000003 + (old.speed)) % 2147483647) * 1000003 + (old.services)) % 2147483647) * 1000003 + (old.country)) % 2147483647) * 1000003 + (old.city)) % 2147483647) * 1000003 + (case typeof(old.ip_out) when 'integer' then old.ip_out
    when 'text' then iif(old.ip_out = '', -1, -2 - (((((((((((((((octet_length(old.ip_out)) * 1000003 + (('0x0' || hex(substr(cast(old.ip_out as blob), 1, 7))) ->> '$')) % 2147483647) * 1000003 + (('0x0' || hex(substr(cast(old.ip_out as blob), 8, 7))) ->> '$')) % 2147483647) * 1000003 + (('0x0' || hex(substr(cast(old.ip_out as blob), 15, 7))) ->> '$')) % 2147483647) * 1000003 + (('0x0' || hex(substr(cast(old.ip_out as blob), 22, 7))) ->> '$')) % 2147483647) * 1000003 + (('0x0' || hex(substr(cast(old.ip_out as blob), 29, 7))) ->> '$')) % 2147483647) * 1000003 + (('0x0' || hex(substr(cast(old.ip_out as blob), 36, 7))) ->> '$')) % 2147483647) * 1000003 + (('0x0' || hex(substr(cast(old.ip_out as blob), 43, 7))) ->> '$')) % 2147483647)) end)) % 2147483647) * (old.id % 2147483646 + 1) % 2147483647;
  end;
create trigger if not exists proxies_update after update on proxies begin
    update digest set written_at = cast(unixepoch('subsec') * 1000 as integer),
      rows = rows + 0,
      sum = sum + (((((((((((((((((((((new.id % 2147483647) * 1000003 + (new.checked_at)) % 2147483647) * 1000003 + (new.ping_ms)) % 2147483647) * 1000003 + (new.type)) % 2147483647) * 1000003 + (new.anon)) % 2147483647) * 1000003 + (new.works)) % 2147483647) * 1000003 + (new.speed)) % 2147483647) * 1000003 + (new.services)) % 2147483647) * 1000003 + (new.country)) % 2147483647) * 1000003 + (new.city)) % 2147483647) * 1000003 + (case typeof(new.ip_out) when 'integer' then new.ip_out
    when 'text' then iif(new.ip_out = '', -1, -2 - (((((((((((((((octet_length(new.ip_out)) * 1000003 + (('0x0' || hex(substr(cast(new.ip_out as blob), 1, 7))) ->> '$')) % 2147483647) * 1000003 + (('0x0' || hex(substr(cast(new.ip_out as blob), 8, 7))) ->> '$')) % 2147483647) * 1000003 + (('0x0' || hex(substr(cast(new.ip_out as blob), 15, 7))) ->> '$')) % 2147483647) * 1000003 + (('0x0' || hex(substr(cast(new.ip_out as blob), 22, 7))) ->> '$')) % 2147483647) * 1000003 + (('0x0' || hex(substr(cast(new.ip_out as blob), 29, 7))) ->> '$')) % 2147483647) * 1000003 + (('0x0' || hex(substr(cast(new.ip_out as blob), 36, 7))) ->> '$')) % 2147483647) * 1000003 + (('0x0' || hex(substr(cast(new.ip_out as blob), 43, 7))) ->> '$')) % 2147483647)) end)) % 2147483647) * (new.id % 2147483646 + 1) % 2147483647 - (((((((((((((((((((((old.id % 2147483647) * 1000003 + (old.checked_at)) % 2147483647) * 1000003 + (old.ping_ms)) % 2147483647) * 1000003 + (old.type)) % 2147483647) * 1000003 + (old.anon)) % 2147483647) * 1000003 + (old.works)) % 2147483647) * 1000003 + (old.speed)) % 2147483647) * 1000003 + (old.services)) % 2147483647) * 1000003 + (old.country)) % 2147483647) * 1000003 + (old.city)) % 2147483647) * 1000003 + (case typeof(old.ip_out) when 'integer' then old.ip_out
    when 'text' then iif(old.ip_out = '', -1, -2 - (((((((((((((((octet_length(old.ip_out)) * 1000003 + (('0x0' || hex(substr(cast(old.ip_out as blob), 1, 7))) ->> '$')) % 2147483647) * 1000003 + (('0x0' || hex(substr(cast(old.ip_out as blob), 8, 7))) ->> '$')) % 2147483647) * 1000003 + (('0x0' || hex(substr(cast(old.ip_out as blob), 15, 7))) ->> '$')) % 2147483647) * 1000003 + (('0x0' || hex(substr(cast(old.ip_out as blob), 22, 7))) ->> '$')) % 2147483647) * 1000003 + (('0x0' || hex(substr(cast(old.ip_out as blob), 29, 7))) ->> '$')) % 2147483647) * 1000003 + (('0x0' || hex(substr(cast(old.ip_out as blob), 36, 7))) ->> '$')) % 2147483647) * 1000003 + (('0x0' || hex(substr(cast(old.ip_out as blob), 43, 7))) ->> '$')) % 2147483647)) end)) % 2147483647) * (old.id % 2147483646 + 1) % 2147483647;
  end;
