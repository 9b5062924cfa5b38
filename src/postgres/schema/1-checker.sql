-- What the checker last said of itself, as JSON. At most one row.
create table proxylist.checker (
  one boolean primary key default true check (one),
  status text not null
);
