-- The least that nodes need in the database, once, before the schema is filled:
--   sudo -u postgres psql proxylist < rights.sql
-- They read and write rows; only the owner makes, changes or drops anything.
create schema proxylist authorization proxylist_owner;
grant usage on schema proxylist to proxylist;

-- What the owner makes there, now and in later versions.
alter default privileges for role proxylist_owner in schema proxylist
  grant select, insert, update, delete on tables to proxylist;
alter default privileges for role proxylist_owner in schema proxylist
  grant usage on sequences to proxylist;
alter default privileges for role proxylist_owner in schema proxylist
  grant execute on functions to proxylist;
