-- From schema 2 to 3.
alter table proxylist.keys add callers text not null default '';
