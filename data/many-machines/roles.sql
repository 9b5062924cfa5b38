-- The roles and the database of proxylist, once, as a superuser on the primary:
--   sudo -u postgres psql < roles.sql
-- then give each role a password, which psql asks for:
--   sudo -u postgres psql -c '\password proxylist_owner'    makes and upgrades the schema
--   sudo -u postgres psql -c '\password proxylist'          what nodes and commands use
--   sudo -u postgres psql -c '\password proxylist_standby'  what standbys use
create role proxylist_owner login;
create role proxylist login;
create role proxylist_standby login replication;

create database proxylist owner proxylist_owner encoding 'UTF8' template template0;
revoke all on database proxylist from public;
grant connect, temporary on database proxylist to proxylist;
