drop trigger if exists proxies_insert;
drop trigger if exists proxies_delete;
drop trigger if exists proxies_update;
drop trigger if exists cities_insert;
drop trigger if exists cities_delete;
drop trigger if exists cities_update;
-- One row: number of proxies, sums of the hashes of proxies and of cities, and the file stamp.
create table checksum (
  rows integer not null,
  proxies integer not null,
  cities integer not null,
  stamped_at integer not null        -- Unix milliseconds, see file-stamp.ts
) strict;
-- Only a digest of the second version was stamped; one made just now could match the file's time.
insert into checksum select rows, sum, cities, iif(user_version = 2, written_at, 0)
  from digest, pragma_user_version;
drop table digest;
create trigger cities_insert after insert on cities begin
    update checksum set stamped_at = -abs(stamped_at),
      rows = rows + 0,
      cities = cities + (((((new.id % 2147483647) * 1000003 + ((
  with recursive parts (start, sum) as (
    select 1, octet_length(new.name) union all
    select start + 7, (sum * 1000003 + (('0x0' || hex(substr(cast(new.name as blob), start, 7))) ->> '$')) % 2147483647
    from parts where start <= octet_length(new.name)
  ) select sum from parts order by start desc limit 1))) % 2147483647) * 1000003 + ((
  with recursive parts (start, sum) as (
    select 1, octet_length(new.name_en) union all
    select start + 7, (sum * 1000003 + (('0x0' || hex(substr(cast(new.name_en as blob), start, 7))) ->> '$')) % 2147483647
    from parts where start <= octet_length(new.name_en)
  ) select sum from parts order by start desc limit 1))) % 2147483647) * (new.id % 2147483646 + 1) % 2147483647 ;
  end;
create trigger cities_delete after delete on cities begin
    update checksum set stamped_at = -abs(stamped_at),
      rows = rows + 0,
      cities = cities +  - (((((old.id % 2147483647) * 1000003 + ((
  with recursive parts (start, sum) as (
    select 1, octet_length(old.name) union all
    select start + 7, (sum * 1000003 + (('0x0' || hex(substr(cast(old.name as blob), start, 7))) ->> '$')) % 2147483647
    from parts where start <= octet_length(old.name)
  ) select sum from parts order by start desc limit 1))) % 2147483647) * 1000003 + ((
  with recursive parts (start, sum) as (
    select 1, octet_length(old.name_en) union all
    select start + 7, (sum * 1000003 + (('0x0' || hex(substr(cast(old.name_en as blob), start, 7))) ->> '$')) % 2147483647
    from parts where start <= octet_length(old.name_en)
  ) select sum from parts order by start desc limit 1))) % 2147483647) * (old.id % 2147483646 + 1) % 2147483647;
  end;
create trigger cities_update after update on cities begin
    update checksum set stamped_at = -abs(stamped_at),
      rows = rows + 0,
      cities = cities + (((((new.id % 2147483647) * 1000003 + ((
  with recursive parts (start, sum) as (
    select 1, octet_length(new.name) union all
    select start + 7, (sum * 1000003 + (('0x0' || hex(substr(cast(new.name as blob), start, 7))) ->> '$')) % 2147483647
    from parts where start <= octet_length(new.name)
  ) select sum from parts order by start desc limit 1))) % 2147483647) * 1000003 + ((
  with recursive parts (start, sum) as (
    select 1, octet_length(new.name_en) union all
    select start + 7, (sum * 1000003 + (('0x0' || hex(substr(cast(new.name_en as blob), start, 7))) ->> '$')) % 2147483647
    from parts where start <= octet_length(new.name_en)
  ) select sum from parts order by start desc limit 1))) % 2147483647) * (new.id % 2147483646 + 1) % 2147483647 - (((((old.id % 2147483647) * 1000003 + ((
  with recursive parts (start, sum) as (
    select 1, octet_length(old.name) union all
    select start + 7, (sum * 1000003 + (('0x0' || hex(substr(cast(old.name as blob), start, 7))) ->> '$')) % 2147483647
    from parts where start <= octet_length(old.name)
  ) select sum from parts order by start desc limit 1))) % 2147483647) * 1000003 + ((
  with recursive parts (start, sum) as (
    select 1, octet_length(old.name_en) union all
    select start + 7, (sum * 1000003 + (('0x0' || hex(substr(cast(old.name_en as blob), start, 7))) ->> '$')) % 2147483647
    from parts where start <= octet_length(old.name_en)
  ) select sum from parts order by start desc limit 1))) % 2147483647) * (old.id % 2147483646 + 1) % 2147483647;
  end;
create trigger proxies_insert after insert on proxies begin
    update checksum set stamped_at = -abs(stamped_at),
      rows = rows + 1,
      proxies = proxies + (((((((((((((((((((((new.id % 2147483647) * 1000003 + (new.checked_at)) % 2147483647) * 1000003 + (new.ping_ms)) % 2147483647) * 1000003 + (new.type)) % 2147483647) * 1000003 + (new.anon)) % 2147483647) * 1000003 + (new.works)) % 2147483647) * 1000003 + (new.speed)) % 2147483647) * 1000003 + (new.services)) % 2147483647) * 1000003 + (new.country)) % 2147483647) * 1000003 + (new.city)) % 2147483647) * 1000003 + (case typeof(new.ip_out) when 'integer' then new.ip_out
    when 'text' then iif(new.ip_out = '', -1, -2 - (((((((((((((((octet_length(new.ip_out)) * 1000003 + (('0x0' || hex(substr(cast(new.ip_out as blob), 1, 7))) ->> '$')) % 2147483647) * 1000003 + (('0x0' || hex(substr(cast(new.ip_out as blob), 8, 7))) ->> '$')) % 2147483647) * 1000003 + (('0x0' || hex(substr(cast(new.ip_out as blob), 15, 7))) ->> '$')) % 2147483647) * 1000003 + (('0x0' || hex(substr(cast(new.ip_out as blob), 22, 7))) ->> '$')) % 2147483647) * 1000003 + (('0x0' || hex(substr(cast(new.ip_out as blob), 29, 7))) ->> '$')) % 2147483647) * 1000003 + (('0x0' || hex(substr(cast(new.ip_out as blob), 36, 7))) ->> '$')) % 2147483647) * 1000003 + (('0x0' || hex(substr(cast(new.ip_out as blob), 43, 7))) ->> '$')) % 2147483647)) end)) % 2147483647) * (new.id % 2147483646 + 1) % 2147483647 ;
  end;
create trigger proxies_delete after delete on proxies begin
    update checksum set stamped_at = -abs(stamped_at),
      rows = rows + -1,
      proxies = proxies +  - (((((((((((((((((((((old.id % 2147483647) * 1000003 + (old.checked_at)) % 2147483647) * 1000003 + (old.ping_ms)) % 2147483647) * 1000003 + (old.type)) % 2147483647) * 1000003 + (old.anon)) % 2147483647) * 1000003 + (old.works)) % 2147483647) * 1000003 + (old.speed)) % 2147483647) * 1000003 + (old.services)) % 2147483647) * 1000003 + (old.country)) % 2147483647) * 1000003 + (old.city)) % 2147483647) * 1000003 + (case typeof(old.ip_out) when 'integer' then old.ip_out
    when 'text' then iif(old.ip_out = '', -1, -2 - (((((((((((((((octet_length(old.ip_out)) * 1000003 + (('0x0' || hex(substr(cast(old.ip_out as blob), 1, 7))) ->> '$')) % 2147483647) * 1000003 + (('0x0' || hex(substr(cast(old.ip_out as blob), 8, 7))) ->> '$')) % 2147483647) * 1000003 + (('0x0' || hex(substr(cast(old.ip_out as blob), 15, 7))) ->> '$')) % 2147483647) * 1000003 + (('0x0' || hex(substr(cast(old.ip_out as blob), 22, 7))) ->> '$')) % 2147483647) * 1000003 + (('0x0' || hex(substr(cast(old.ip_out as blob), 29, 7))) ->> '$')) % 2147483647) * 1000003 + (('0x0' || hex(substr(cast(old.ip_out as blob), 36, 7))) ->> '$')) % 2147483647) * 1000003 + (('0x0' || hex(substr(cast(old.ip_out as blob), 43, 7))) ->> '$')) % 2147483647)) end)) % 2147483647) * (old.id % 2147483646 + 1) % 2147483647;
  end;
create trigger proxies_update after update on proxies begin
    update checksum set stamped_at = -abs(stamped_at),
      rows = rows + 0,
      proxies = proxies + (((((((((((((((((((((new.id % 2147483647) * 1000003 + (new.checked_at)) % 2147483647) * 1000003 + (new.ping_ms)) % 2147483647) * 1000003 + (new.type)) % 2147483647) * 1000003 + (new.anon)) % 2147483647) * 1000003 + (new.works)) % 2147483647) * 1000003 + (new.speed)) % 2147483647) * 1000003 + (new.services)) % 2147483647) * 1000003 + (new.country)) % 2147483647) * 1000003 + (new.city)) % 2147483647) * 1000003 + (case typeof(new.ip_out) when 'integer' then new.ip_out
    when 'text' then iif(new.ip_out = '', -1, -2 - (((((((((((((((octet_length(new.ip_out)) * 1000003 + (('0x0' || hex(substr(cast(new.ip_out as blob), 1, 7))) ->> '$')) % 2147483647) * 1000003 + (('0x0' || hex(substr(cast(new.ip_out as blob), 8, 7))) ->> '$')) % 2147483647) * 1000003 + (('0x0' || hex(substr(cast(new.ip_out as blob), 15, 7))) ->> '$')) % 2147483647) * 1000003 + (('0x0' || hex(substr(cast(new.ip_out as blob), 22, 7))) ->> '$')) % 2147483647) * 1000003 + (('0x0' || hex(substr(cast(new.ip_out as blob), 29, 7))) ->> '$')) % 2147483647) * 1000003 + (('0x0' || hex(substr(cast(new.ip_out as blob), 36, 7))) ->> '$')) % 2147483647) * 1000003 + (('0x0' || hex(substr(cast(new.ip_out as blob), 43, 7))) ->> '$')) % 2147483647)) end)) % 2147483647) * (new.id % 2147483646 + 1) % 2147483647 - (((((((((((((((((((((old.id % 2147483647) * 1000003 + (old.checked_at)) % 2147483647) * 1000003 + (old.ping_ms)) % 2147483647) * 1000003 + (old.type)) % 2147483647) * 1000003 + (old.anon)) % 2147483647) * 1000003 + (old.works)) % 2147483647) * 1000003 + (old.speed)) % 2147483647) * 1000003 + (old.services)) % 2147483647) * 1000003 + (old.country)) % 2147483647) * 1000003 + (old.city)) % 2147483647) * 1000003 + (case typeof(old.ip_out) when 'integer' then old.ip_out
    when 'text' then iif(old.ip_out = '', -1, -2 - (((((((((((((((octet_length(old.ip_out)) * 1000003 + (('0x0' || hex(substr(cast(old.ip_out as blob), 1, 7))) ->> '$')) % 2147483647) * 1000003 + (('0x0' || hex(substr(cast(old.ip_out as blob), 8, 7))) ->> '$')) % 2147483647) * 1000003 + (('0x0' || hex(substr(cast(old.ip_out as blob), 15, 7))) ->> '$')) % 2147483647) * 1000003 + (('0x0' || hex(substr(cast(old.ip_out as blob), 22, 7))) ->> '$')) % 2147483647) * 1000003 + (('0x0' || hex(substr(cast(old.ip_out as blob), 29, 7))) ->> '$')) % 2147483647) * 1000003 + (('0x0' || hex(substr(cast(old.ip_out as blob), 36, 7))) ->> '$')) % 2147483647) * 1000003 + (('0x0' || hex(substr(cast(old.ip_out as blob), 43, 7))) ->> '$')) % 2147483647)) end)) % 2147483647) * (old.id % 2147483646 + 1) % 2147483647;
  end;
