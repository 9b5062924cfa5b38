-- The types that sources have named, see `proxies/types.ts`; before, one type as `hint` in `memory`.
alter table candidates add column named integer not null default 0;
update candidates set named = case memory ->> 'hint'
  when 'http' then 1 when 'https' then 2 when 'socks4' then 4 when 'socks5' then 8 else 0 end;
