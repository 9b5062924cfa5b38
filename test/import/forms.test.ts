/** Every form of list in contract D3a, and what D2b says of values that the importer doesn't understand. */
import { afterAll, describe, expect, test } from 'bun:test'
import { gzipSync, zstdCompressSync } from 'node:zlib'
import { CommandError } from '../../src/lib/errors.ts'
import type { IncomingProxy, ProxyType } from '../../src/proxies/proxy.ts'
import { bestOf, typesOf } from '../../src/proxies/types.ts'
import { openList } from '../../src/sqlite/stores.ts'
import { NO_FILTER, T0 } from '../support/fixtures.ts'
import { proxiesOf } from '../support/rows.ts'
import { cleanUp, onCleanUp } from '../support/temporary.ts'
import { DEFAULTS, imported, sourceOf } from './imported.ts'

afterAll(cleanUp)
const NOW = T0 / 1000

/** `address type name=value… service…`. `age` is in seconds; unknown values are left out. */
function shown(proxy: IncomingProxy): string {
  const { anon, speed, works, pingMs: ping, ipOut: out, country, city, cityEn, checkedAt } = proxy
  const age = NOW - checkedAt || null
  const facts = Object.entries({ anon, speed, works, ping, out, country, city, cityEn, age })
  const known = facts.filter(([, value]) => value !== '' && value !== null)
  const words = known.map(([name, value]) => `${name}=${value}`)
  return [
    `${proxy.ip}:${proxy.port}`,
    typesOf(proxy.types).join(','),
    ...words,
    ...proxy.services,
  ].join(' ')
}

type More = { file?: string; type?: ProxyType; strict?: boolean; atMs?: number }
const HTTP: More = { type: 'http' }

function read(data: string | Uint8Array, more: More = {}, size = 4096) {
  const { file = 'list', type, strict = false, atMs = T0 } = more
  const source = Object.assign(sourceOf(file, data, size), { atMs })
  return imported([source], { defaults: { ...DEFAULTS, type }, strict })
}

/**
 * Each case is `name :: input` and `> proxies`, which may end with a count such as `; skipped 1`. The type is http where
 * a list says none. `⏎` and `⇥` are a line break and a tab.
 */
const TEXT = `
capitals among other words, and states behind a city, which are no countries :: 192.0.2.1:80 PT Telkom⏎192.0.2.2:80 AT&T Services US⏎192.0.2.3:80 | Chicago, IL | US
> 192.0.2.1:80 http, 192.0.2.2:80 http, 192.0.2.3:80 http country=US
names with a value, which are no marks :: 192.0.2.1:80 | Timeout: 0.5s⏎192.0.2.2:80 (down: 5)⏎192.0.2.3:80 - alive: false
> 192.0.2.1:80 http ping=500, 192.0.2.2:80 http; skipped 1
an outgoing address without a port :: 192.0.2.1:80 exit 198.51.100.1 120 ms
> 192.0.2.1:80 http ping=120
an address in a sentence :: the best one: 192.0.2.1:80, says Ann
> 192.0.2.1:80 http
no country in short words of a sentence :: it is at 192.0.2.1:80 as of now, so be it
> 192.0.2.1:80 http
several addresses in a line :: 192.0.2.1:80, 192.0.2.2:81; 192.0.2.3:82 192.0.2.4:83⏎192.0.2.5:84 | 192.0.2.6:85
> 192.0.2.1:80 http, 192.0.2.2:81 http, 192.0.2.3:82 http, 192.0.2.4:83 http, 192.0.2.5:84 http, 192.0.2.6:85 http
type:// :: http://192.0.2.1:80⏎HTTPS://192.0.2.2:443/⏎socks4://192.0.2.3:1⏎socks4a://192.0.2.4:2⏎socks5h://192.0.2.5:3
> 192.0.2.1:80 http, 192.0.2.2:443 https, 192.0.2.3:1 socks4, 192.0.2.4:2 socks4, 192.0.2.5:3 socks5
ip:port@type :: 192.0.2.1:1080@socks5⏎192.0.2.2:80@HTTP
> 192.0.2.1:1080 socks5, 192.0.2.2:80 http
a type in front of or behind the address :: SOCKS5 192.0.2.1:1⏎HTTP 192.0.2.2:80⏎socks4 192.0.2.3:2 my proxy⏎192.0.2.4:3 SOCKS5 office
> 192.0.2.1:1 socks5, 192.0.2.2:80 http, 192.0.2.3:2 socks4, 192.0.2.4:3 socks5
ip port :: 192.0.2.1 80⏎192.0.2.2⇥81
> 192.0.2.1:80 http, 192.0.2.2:81 http
ip:port:CC :: 192.0.2.1:80:DE⏎192.0.2.2:80:us⏎192.0.2.3:80:UK⏎192.0.2.4:80:ZZ
> 192.0.2.1:80 http country=DE, 192.0.2.2:80 http country=US, 192.0.2.3:80 http country=GB, 192.0.2.4:80 http
ip:port:Country :: 192.0.2.1:80:United States⏎192.0.2.2:80:The Netherlands⏎192.0.2.3:80:Unknown⏎192.0.2.4:80:Hong Kong
> 192.0.2.1:80 http country=US, 192.0.2.2:80 http country=NL, 192.0.2.3:80 http, 192.0.2.4:80 http country=HK
ip:port|Country|City :: 192.0.2.1:80|Germany|Berlin⏎192.0.2.2:80|France|Lyon
> 192.0.2.1:80 http country=DE city=Berlin, 192.0.2.2:80 http country=FR city=Lyon
flags and notes :: 🇺🇸 192.0.2.1:80 312ms US [Example ISP]⏎192.0.2.2:80 🇩🇪 - fast
> 192.0.2.1:80 http ping=312 country=US, 192.0.2.2:80 http country=DE
a type, level, country and ping :: 192.0.2.1:1080 socks5 elite FR 120ms⏎192.0.2.2:4145 DE transparent socks4
> 192.0.2.1:1080 socks5 anon=elite ping=120 country=FR, 192.0.2.2:4145 socks4 anon=transparent country=DE
=> success :: 192.0.2.1:80 => success⏎192.0.2.2:80 => fail⏎192.0.2.3:80 => failure⏎192.0.2.4:80 => dead
> 192.0.2.1:80 http; skipped 3
the notes of spys.me :: 192.0.2.1:80 RU-H-S + ⏎192.0.2.2:80 US-N! - ⏎192.0.2.3:80 BR-A -
> 192.0.2.1:80 https anon=elite country=RU google, 192.0.2.2:80 http anon=transparent country=US, 192.0.2.3:80 http anon=anonymous country=BR
remarks :: 192.0.2.1:80 // slow⏎192.0.2.2:80 -- slow⏎(192.0.2.3:80) slow⏎"192.0.2.4:80"
> 192.0.2.1:80 http, 192.0.2.2:80 http, 192.0.2.3:80 http, 192.0.2.4:80 http
numbered lines :: 1. 192.0.2.1:80⏎2) 192.0.2.2:80⏎[3] 192.0.2.3:80⏎10. 192.0.2.4:80
> 192.0.2.1:80 http, 192.0.2.2:80 http, 192.0.2.3:80 http, 192.0.2.4:80 http
bullets :: - 192.0.2.1:80⏎* 192.0.2.2:80⏎• 192.0.2.3:80
> 192.0.2.1:80 http, 192.0.2.2:80 http, 192.0.2.3:80 http
nothing behind a # :: # 192.0.2.9:80⏎192.0.2.1:80 # was 192.0.2.8:80
> 192.0.2.1:80 http
the lines of ProxyBroker :: <Proxy US 0.52s [HTTP: Transparent] 192.0.2.1:3128>⏎<Proxy DE 0.11s [SOCKS5] 192.0.2.2:1080>
> 192.0.2.1:3128 http anon=transparent ping=520 country=US, 192.0.2.2:1080 socks5 ping=110 country=DE
ProxyBroker with several types :: <Proxy NL 1.20s [HTTP: High, HTTPS] 192.0.2.3:8080>⏎<Proxy -- 0.40s [] 192.0.2.4:80>
> 192.0.2.3:8080 https,http anon=elite ping=1200 country=NL, 192.0.2.4:80 http ping=400
proxychains :: # two hops⏎strict_chain⏎tcp_read_time_out 15000⏎[ProxyList]⏎# exit⏎socks5 192.0.2.1 1080⏎http⇥192.0.2.2⇥80
> 192.0.2.1:1080 socks5, 192.0.2.2:80 http
a JSON array of strings :: ["192.0.2.1:80","socks5://192.0.2.2:1080","192.0.2.3:80:DE","192.0.2.4 81","SOCKS4 192.0.2.5:1"]
> 192.0.2.1:80 http, 192.0.2.2:1080 socks5, 192.0.2.3:80 http country=DE, 192.0.2.4:81 http, 192.0.2.5:1 socks4
`

const TABLES = `
a scheme or a login in the address :: proxy,country⏎socks5://192.0.2.1:1080,DE⏎192.0.2.2:80:Germany,⏎user:pass@192.0.2.3:80,DE
> 192.0.2.1:1080 socks5 country=DE, 192.0.2.2:80 http country=DE; rejected 1
a version as the type, beside TLS :: IP Address,Port,Code,Version,Https⏎192.0.2.1,1080,US,Socks4,Yes
> 192.0.2.1:1080 socks4 country=US
a time as a speed :: IP Address,Port,Speed⏎192.0.2.1,80,120 ms
> 192.0.2.1:80 http ping=120
dates that are certain :: ip,last_checked⏎192.0.2.1:80,2026/11/20 11:59:00⏎192.0.2.2:80,20.11.2026 11:59:00⏎192.0.2.3:80,"Fri, 20 Nov 2026 11:59:00 GMT"
> 192.0.2.1:80 http age=60, 192.0.2.2:80 http age=60, 192.0.2.3:80 http age=60
whole numbers up to 60 without a unit, which are unclear :: ip,port,latency⏎192.0.2.1,80,120⏎192.0.2.2,80,45⏎192.0.2.3,80,0.5
> 192.0.2.1:80 http ping=120, 192.0.2.2:80 http, 192.0.2.3:80 http ping=500
addresses in a column of any name :: Where,Port number⏎192.0.2.1:80,x
> 192.0.2.1:80 http
Markdown :: | Proxy IP | PORT | protocol | country_name |
|:--|--:|---|---|
| 192.0.2.1 | 80 | http | Germany |
| 192.0.2.2 | 81 | socks5 | Hong Kong |
> 192.0.2.1:80 http country=DE, 192.0.2.2:81 socks5 country=HK
our own names with names of countries :: ip,port,type,country
192.0.2.1,80,socks4,Germany
192.0.2.2,80,http,"Korea, Republic of"
> 192.0.2.1:80 socks4 country=DE, 192.0.2.2:80 http country=KR
a column of addresses for each type :: SOCKS4,SOCKS5,HTTP
192.0.2.1:4145,192.0.2.2:1080,192.0.2.3:80
,192.0.2.4:1080,
> 192.0.2.1:4145 socks4, 192.0.2.2:1080 socks5, 192.0.2.3:80 http, 192.0.2.4:1080 socks5
flags of types, levels 1 to 4, ms, seconds ago and counts :: host;ip;port;lastseen;delay;cid;country_code;country_name;city;checks_up;checks_down;anon;http;ssl;socks4;socks5
192.0.2.1;192.0.2.1;4145;54;860;9;US;United States;;3;1;4;0;0;1;1
192.0.2.2;192.0.2.2;80;5400;54;9;US;United States;Reno;1;1;3;1;0;0;0
192.0.2.3;192.0.2.3;3128;60;1460;9;BE;Belgium;;1;3;2;1;1;0;0
192.0.2.4;192.0.2.4;4153;61;1220;9;MM;Myanmar;;0;0;1;0;0;1;0
> 192.0.2.1:4145 socks5,socks4 anon=elite works=75 ping=860 country=US age=54, 192.0.2.2:80 http anon=anonymous works=50 ping=54 country=US city=Reno age=5400, 192.0.2.3:3128 https,http anon=anonymous works=25 ping=1460 country=BE age=60, 192.0.2.4:4153 socks4 anon=transparent ping=1220 country=MM age=61
yes and no, and relative times :: IP Address,Port,Code,Country,Anonymity,Google,Https,Last Checked
192.0.2.1,80,GB,United Kingdom,elite proxy,no,yes,1 min ago
192.0.2.2,81,HK,Hong Kong,anonymous,yes,no,2 hours ago
> 192.0.2.1:80 https anon=elite country=GB age=60, 192.0.2.2:81 http anon=anonymous country=HK age=7200 google
proto beside a type that holds the level :: ip,port,proto,type
192.0.2.1,1080,socks5,elite
192.0.2.2,80,http,Transparent
> 192.0.2.1:1080 socks5 anon=elite, 192.0.2.2:80 http anon=transparent
ptype, exitip and speedkbps :: ip,port,ptype,exitip,speedkbps,ping
192.0.2.1,1080,socks5,198.51.100.1,800,54 ms
> 192.0.2.1:1080 socks5 speed=100000 ping=54 out=198.51.100.1
no speed without a unit under foreign names :: IP Address,Port,Protocol,Speed
192.0.2.1,80,http,1
192.0.2.2,80,http,1.5 MB/s
> 192.0.2.1:80 http, 192.0.2.2:80 http speed=1500000
rows that are not marked as dead :: ip,port,alive
192.0.2.1,80,1
192.0.2.2,80,0
> 192.0.2.1:80 http; skipped 1
empty columns for user and password :: ip,port,username,password,protocol,ping,country,isocode,lastTested
192.0.2.1,4145,,,socks4,,Thailand,TH,"2026-11-20 11:59:00.0"
> 192.0.2.1:4145 socks4 country=TH age=60
`

const DATED = NOW - Date.UTC(2021, 7, 3) / 1000

const JSON_AND_YAML = `
an envelope with an address of its own :: {"ip":"203.0.113.9","server":"203.0.113.8:443","proxies":[{"ip":"192.0.2.1","port":80,"type":"socks4"},{"ip":"192.0.2.2","port":81}],"meta":{"host":"203.0.113.7","port":80}}
> 192.0.2.1:80 socks4, 192.0.2.2:81 http
a scheme and other protocols in an address :: [{"proxy":"socks5://192.0.2.1:1080"},{"proxy":"ss://192.0.2.2:8388"},{"type":"socks","ip":"192.0.2.3:80"}]
> 192.0.2.1:1080 socks5; rejected 2
several types with ports of their own :: [{"ip":"192.0.2.1","protocols":[{"type":"http","port":80},{"type":"socks5","port":1080}]}]
> 192.0.2.1:80 http
a type beside all types :: [{"host":"192.0.2.1","port":80,"type":"http","types":["http","socks5"]}]
> 192.0.2.1:80 socks5,http
a one-line envelope that begins with its type :: {"type":"socks5","proxies":[{"ip":"192.0.2.1","port":80},{"ip":"192.0.2.2","port":81}]}
> 192.0.2.1:80 socks5, 192.0.2.2:81 socks5
an envelope with metadata :: {"updatedAt":"2026-11-20T11:58:20.973Z","revalidateMinutes":30,"count":1,"source":"https://example.com","metadata":{"by":["x"]},"proxies":[{"ip":"192.0.2.1","port":3128,"protocol":"socks4","country":"us","anonymity":"elite","latencyMs":182,"uptimePct":99}],"license":{"name":"x"}}
> 192.0.2.1:3128 socks4 anon=elite works=99 ping=182 country=US age=100
envelopes in envelopes :: {"code":0,"answer":{"page":{"rows":[{"ip":"192.0.2.1","port":80,"type":"socks4"},{"ip":"192.0.2.2:81"}]}}}
> 192.0.2.1:80 socks4, 192.0.2.2:81 http
an envelope with other arrays :: {"tags":["a","b"],"sources":[{"name":"x"}],"found":[{"ip":"192.0.2.1","port":80,"type":"socks4"}]}
> 192.0.2.1:80 socks4
the date of an envelope :: {"date":"2021-08-03","data":[{"ip":"192.0.2.1:80"},{"ip":"192.0.2.2:80","last_checked":"2026-11-20 11:59:00"}]}
> 192.0.2.1:80 http age=${DATED}, 192.0.2.2:80 http age=60
nested places, the code before the name :: [{"ip":"192.0.2.1","port":80,"location":{"country":"Thailand","isocode":"TH","city":"Nan"}},
{"ip":"192.0.2.2","port":80,"geolocation":{"status":"fail","country":"Hong Kong","countryCode":"HK"}},
{"ip":"192.0.2.3","port":80,"geolocation":{"country":{"iso_code":"DE","names":{"en":"Germany"}}}},
{"ip":"192.0.2.4","port":80,"country":"Germany","country_code":"FR"}]
> 192.0.2.1:80 http country=TH city=Nan, 192.0.2.2:80 http country=HK, 192.0.2.3:80 http country=DE, 192.0.2.4:80 http country=FR
the type and port in protocols :: [{"ip":"192.0.2.1","protocols":[{"type":"socks4","port":4145},{"type":"socks5","port":4145}]}]
> 192.0.2.1:4145 socks5,socks4
counts of good and bad checks :: [{"ip":"192.0.2.1:80","success_count":9,"fail_count":1}]
> 192.0.2.1:80 http works=90
objects by address :: {"192.0.2.1:80":{"type":"socks4","country":"DE"},"192.0.2.2:81":{"type":"socks5"}}
> 192.0.2.1:80 socks4 country=DE, 192.0.2.2:81 socks5
objects by IP address :: {"192.0.2.1":{"port":80,"type":"socks4"},"192.0.2.2":{"port":81,"type":"socks5"}}
> 192.0.2.1:80 socks4, 192.0.2.2:81 socks5
lists by type :: {"SOCKS4":["192.0.2.1:80"],"http":[],"socks5":[{"host":"192.0.2.2","port":81}]}
> 192.0.2.1:80 socks4, 192.0.2.2:81 socks5
lists by country :: {"US":["192.0.2.1:80"],"Germany":[{"ip":"192.0.2.2","port":80}]}
> 192.0.2.1:80 http country=US, 192.0.2.2:80 http country=DE
lists by country and type :: {"US":{"http":["192.0.2.1:80"],"socks5":["192.0.2.2:81"]},"DE":{"socks4":["192.0.2.3:80"]}}
> 192.0.2.1:80 http country=US, 192.0.2.2:81 socks5 country=US, 192.0.2.3:80 socks4 country=DE
openproxy.space :: [{"code":"US","count":2,"items":["192.0.2.1:80","192.0.2.2:80"]},{"code":"DE","count":1,"items":["192.0.2.3:80"]}]
> 192.0.2.1:80 http country=US, 192.0.2.2:80 http country=US, 192.0.2.3:80 http country=DE
GeoNode :: {"data":[{"_id":"a1","ip":"192.0.2.1","anonymityLevel":"elite","asn":"AS64496","city":"Ulm","country":"DE","created_at":"2026-08-31T07:01:44.158Z","google":true,"isp":"X","lastChecked":1795175940,"latency":7.1,"org":"X","port":"1080","protocols":["socks4","socks5"],"region":null,"responseTime":48,"speed":1,"workingPercent":null,"upTime":99.9,"upTimeSuccessCount":9,"upTimeTryCount":10}],"total":1,"page":1,"limit":500}
> 192.0.2.1:1080 socks5,socks4 anon=elite works=99 ping=48 country=DE city=Ulm age=60 google
ProxyScrape v4 :: {"shown_records":1,"nextpage":false,"proxies":[{"alive":true,"alive_since":1795170000.2,"anonymity":"elite","average_timeout":71.4,"first_seen":1790000000.5,"ip_data":{"as":"AS64496 X","city":"Lyon","continentCode":"EU","country":"France","countryCode":"FR","proxy":false,"status":"fail"},"last_seen":1795175940.7,"port":8080,"protocol":"http","proxy":"http://192.0.2.1:8080","ssl":true,"timeout":62.7,"times_alive":9,"times_dead":1,"uptime":96.6,"ip":"192.0.2.1"}]}
> 192.0.2.1:8080 https anon=elite works=96 ping=63 country=FR city=Lyon age=60
proxybroker :: [{"host":"192.0.2.1","port":3128,"geo":{"country":{"code":"NL","name":"Netherlands"},"city":"Ede"},"types":[{"type":"HTTP","level":"High"},{"type":"HTTPS","level":""}],"avg_resp_time":1.11,"error_rate":0.25}]
> 192.0.2.1:3128 https,http anon=elite works=75 ping=1110 country=NL city=Ede
scylla :: {"proxies":[{"id":1,"ip":"192.0.2.1","port":3128,"is_valid":true,"created_at":1795000000,"updated_at":1795175940,"latency":32.0,"stability":0.75,"is_anonymous":true,"is_https":true,"attempts":4,"location":"25.0,121.5","country":"TW","city":"Yilan"}],"count":1,"per_page":20,"page":1,"total_page":1}
> 192.0.2.1:3128 https anon=anonymous works=75 ping=32 country=TW city=Yilan age=60
monosans :: [{"protocol":"socks5","username":null,"password":null,"host":"192.0.2.1","port":1080,"exit_ip":"198.51.100.1","timeout":0.61,"geolocation":{"city":{"names":{"en":"Kazan","ru":"Казань"}},"country":{"iso_code":"RU","names":{"en":"Russia"}}}}]
> 192.0.2.1:1080 socks5 ping=610 out=198.51.100.1 country=RU city=Казань cityEn=Kazan
proxifly :: [{"proxy":"http://192.0.2.1:80","protocol":"http","ip":"192.0.2.1","port":80,"https":true,"anonymity":"transparent","score":1,"geolocation":{"country":"US","city":"Reno"}},{"proxy":"socks4://192.0.2.2:4145","protocol":"socks4","ip":"192.0.2.2","port":4145,"https":false,"anonymity":"elite","score":1,"geolocation":{"country":"ZZ","city":"Unknown"}}]
> 192.0.2.1:80 https anon=transparent country=US city=Reno, 192.0.2.2:4145 socks4 anon=elite
proxy_pool of jhao104 :: [{"anonymous":"","check_count":0,"fail_count":0,"https":true,"last_status":true,"last_time":"2026-11-20 11:59:00","proxy":"192.0.2.1:80","region":"","source":"x"},{"anonymous":"","check_count":9,"fail_count":9,"https":false,"last_status":false,"last_time":"2020-01-01 10:00:00","proxy":"192.0.2.2:80","region":"","source":"x"}]
> 192.0.2.1:80 https age=60; skipped 1
checkerproxy, whose ip is the outgoing address :: [{"id":9,"report_id":"x","addr":"192.0.2.1:80","type":1,"kind":0,"timeout":54,"cookie":true,"post":false,"ip":"198.51.100.1","addr_geo_iso":"DE","addr_geo_country":"Germany","addr_geo_city":"Ulm","ip_geo_iso":"FR","ip_geo_country":"France","ip_geo_city":"Lyon","created_at":"2026-11-20T11:00:00Z","updated_at":"2026-11-20T11:59:00Z","skip":false},{"id":9,"addr":"192.0.2.2:80","type":2,"kind":2,"timeout":54,"ip":"198.51.100.1"},{"id":9,"addr":"192.0.2.4:80","type":4,"kind":2,"timeout":54,"ip":"198.51.100.1"}]
> 192.0.2.1:80 http anon=transparent ping=54 out=198.51.100.1 country=DE city=Ulm age=60, 192.0.2.2:80 https anon=anonymous ping=54 out=198.51.100.1, 192.0.2.4:80 socks5 anon=anonymous ping=54 out=198.51.100.1
hidemy.name :: [{"host":"192.0.2.1","ip":"192.0.2.1","port":"80","lastseen":54,"delay":54,"cid":"9","country_code":"DE","country_name":"Germany","city":"Ulm","checks_up":"3","checks_down":"1","anon":"4","http":"1","ssl":"0","socks4":"0","socks5":"0"}]
> 192.0.2.1:80 http anon=elite works=75 ping=54 country=DE city=Ulm age=54
jetkai, whose failed endpoints do not mean a dead proxy :: [{"ip":"192.0.2.1","port":4145,"protocols":[{"type":"socks4","port":4145,"tls":true,"autoRead":[false]}],"endpoints":{"a":{"ping":0,"connections":{"success":0,"fail":9},"uptime":"0%"}},"detection":{"proxy":true,"type":"SOCKS5","risk":9},"provider":{"name":"X"},"location":{"continent":"Asia","country":"Thailand","isocode":"TH","city":"Nan"},"dateAdded":"2026-11-19 10:00:00.0","lastTested":"2026-11-20 11:59:00.0"}]
> 192.0.2.1:4145 socks4 country=TH city=Nan age=60
Clash, a proxy a line :: mixed-port: 7890
proxies:
  - {name: "a, b", type: http, server: 192.0.2.1, port: 80}
  - { name: c, type: ss, server: 192.0.2.2, port: 8388, cipher: aes-128-gcm, password: x }
  - {name: d, server: 192.0.2.3, port: 1080, type: socks5, udp: true}
  - {name: e, type: trojan, server: 192.0.2.4, port: 443, password: x, sni: example.com}
proxy-groups:
  - {name: auto, type: select, proxies: ["a, b", d]}
rules:
  - IP-CIDR,192.0.2.128/25,DIRECT
> 192.0.2.1:80 http, 192.0.2.3:1080 socks5; rejected 2
Clash, in blocks :: port: 7890
proxies:
- name: a
  type: socks4
  server: 192.0.2.1
  port: 80
- name: "b: 2"
  server: "192.0.2.2"
  port: "1080"
  type: socks5
- name: c
  type: vmess
  server: 192.0.2.3
  port: 443
  uuid: 00000000-0000-0000-0000-000000000000
> 192.0.2.1:80 socks4, 192.0.2.2:1080 socks5; rejected 1
`

for (const [kind, cases] of Object.entries({ TEXT, TABLES, JSON_AND_YAML })) {
  describe(`in ${kind.toLowerCase().replaceAll('_', ' ')}, the importer reads`, () => {
    const CASE = /^(.+?) :: ([\s\S]+?)\n> (.+?)(?:; (skipped|rejected) (\w+))?$/gm
    for (const [, what, input = '', proxies, counted, count] of cases.matchAll(CASE)) {
      test.each([1, 4096])(`${what}, in chunks of %i bytes`, async size => {
        const text = `${input.replaceAll('⏎', '\n').replaceAll('⇥', '\t')}\n`
        const found = await read(text, HTTP, size)
        expect(found.proxies.map(shown).join(', ')).toBe(proxies ?? '')
        const { rejected, skipped, read: rows, missing } = found.totals
        const wanted = { rejected: 0, skipped: 0, ...(counted && { [counted]: Number(count) }) }
        expect({ rejected, skipped }).toEqual(wanted)
        expect(rows).toBe(found.proxies.length + rejected + skipped)
        expect(missing === null).toBe(rejected + skipped === 0)
      })
    }
  })
}

const BOTH = '192.0.2.1:80 socks4, 192.0.2.2:81 socks5'
const SMALL = 'socks4://192.0.2.1:80\nsocks5://192.0.2.2:81\n'
const UNTYPED = '192.0.2.1:80\n192.0.2.2:81\n'
const inUtf16 = (text: string): Buffer => Buffer.from(`\ufeff${text}`, 'utf16le')
const untypedAs = (type: string): string => `192.0.2.1:80 ${type}, 192.0.2.2:81 ${type}`

const FILES: { readonly [what: string]: readonly [string | Uint8Array, string, More?] } = {
  'UTF-16 with the low byte first': [inUtf16(SMALL), BOTH],
  'UTF-16 with the high byte first': [inUtf16(SMALL).swap16(), BOTH],
  gzip: [gzipSync(SMALL), BOTH],
  zstd: [zstdCompressSync(SMALL), BOTH],
  'a byte order mark and CR LF': [`\ufeff${SMALL.replaceAll('\n', '\r\n')}`, BOTH],
  'a type from the name of a file': [UNTYPED, untypedAs('socks5'), { file: 'socks5.txt' }],
  'a type from a folder': [UNTYPED, untypedAs('socks4'), { file: 'lists/SOCKS4/data.txt' }],
  'a type from a URL': [UNTYPED, untypedAs('socks5'), { file: 'https://example.com/socks5/a.txt' }],
  '--type first': [UNTYPED, untypedAs('http'), { file: 'socks5.txt', type: 'http' }],
  'the type of a row first': [SMALL, BOTH, { file: 'http.txt', type: 'https' }],
  'socks without a version': [
    'ip,type\n192.0.2.1:80,socks\nsocks://192.0.2.2:81,\n',
    untypedAs('socks5'),
    { type: 'socks5' },
  ],
  'ages from the time of the source': [
    '[{"ip":"192.0.2.1:80","lastseen":54},{"ip":"192.0.2.2:80","last_check":"1 minute ago"}]',
    '192.0.2.1:80 http age=3654, 192.0.2.2:80 http age=3660',
    { ...HTTP, atMs: T0 - 3_600_000 },
  ],
  ...Object.fromEntries(
    [',', ';', '\t', '|', ' | '].flatMap(delimiter => {
      const rows = '192.0.2.1,80,SOCKS5,DE,Elite\n192.0.2.2,81,http,FR,transparent\n'
      const header = 'IP Address,Port,Protocol(s),Country Code,anonymityLevel\n'
      const proxies =
        '192.0.2.1:80 socks5 anon=elite country=DE, 192.0.2.2:81 http anon=transparent country=FR'
      const what = `a table with ${JSON.stringify(delimiter)} and`
      return [
        [`${what} a header`, [(header + rows).replaceAll(',', delimiter), proxies]],
        [`${what} no header`, [rows.replaceAll(',', delimiter), proxies]],
      ]
    }),
  ),
}

describe('the importer reads', () => {
  for (const [what, [data, proxies, more]] of Object.entries(FILES)) {
    test(what, async () => {
      const found = await read(data, more)
      expect(found.proxies.map(shown).join(', ')).toBe(proxies)
      expect(found.totals).toMatchObject({ rejected: 0, skipped: 0, missing: null })
      const isNamed = more?.file !== undefined && more.type === undefined
      if (isNamed) expect(found.totals.notes.join()).toMatch(/type/)
    })
  }
})

/** What a file of one row shows, or why the importer refuses it. */
const shownOf = (text: string): Promise<string> =>
  read(text).then(
    ({ proxies }) => proxies.map(shown).join(),
    (error: Error) => error.message,
  )

/** Names of a column, its position from 0, its value, and what the proxy then shows. */
const NAMES: readonly (readonly [names: string, at: number, value: string, shows: string])[] = [
  ['ip|IP Address|ip_address|ipAddress|host|HOST|Proxy IP|Server|IP адрес', 0, '192.0.2.1', ''],
  ['port|PORT|proxy_port|Proxy Port|порт', 1, '80', ''],
  ['type|protocol|Protocol(s)|proto|proxy_type|ptype|Scheme|тип', 2, 'http', ''],
  ['country|Country|country_code|Country Code|countryCode|CC|iso_code', 3, 'DE', ' country=DE'],
  ['country|country_name|Country Name|countryName|страна', 3, 'Germany', ' country=DE'],
  ['city|City|city_name|CityName|город', 3, 'Ulm', ' city=Ulm'],
  ['anon|anonymity|Anonymity Level|anonymityLevel|anonymity_level', 3, 'Elite', ' anon=elite'],
  ['ping_ms|latencyMs|Latency (ms)|responseTimeMs|delay_ms', 3, '54', ' ping=54'],
  ['works|uptime|Uptime (%)|uptimePct|success_rate|Success Rate', 3, '97%', ' works=97'],
  ['ip_out|exit_ip|exitip|Exit IP|outgoingIp', 3, '198.51.100.1', ' out=198.51.100.1'],
  ['lastseen|last_seen|Last Seen', 3, '54', ' age=54'],
  ['Last Checked|lastChecked|last_check|lastTested|last_time', 3, '1 min ago', ' age=60'],
  ['checked_at|updated_at|lastseen|LAST_SEEN', 3, '2026-11-20 11:59:00', ' age=60'],
]

describe('the importer knows the names', () => {
  for (const [names, at, value, shows] of NAMES) {
    test.each(names.split('|'))(`%s, of ${names}`, async name => {
      const columns = ['ip', 'port', 'type', 'x'].with(at, name)
      const cells = ['192.0.2.1', '80', 'http', ''].with(at, value)
      const record = Object.fromEntries(columns.map((column, i) => [column, cells[i]]))
      const proxy = `192.0.2.1:80 http${shows}`
      expect(await shownOf(`${columns}\n${cells}\n`)).toBe(proxy)
      expect(await shownOf(JSON.stringify([record]))).toBe(proxy)
    })
  }
})

const COUNTRIES = {
  DE: 'DE|de|DEU|Germany|GERMANY|Германия|🇩🇪',
  US: 'USA|United States|United States of America|США',
  GB: 'UK|uk|GBR|United Kingdom|Great Britain|Великобритания',
  HK: 'HKG|Hong Kong|Гонконг',
  TR: 'Turkey|Türkiye|Турция',
  CZ: 'Czech Republic|Czechia|Чехия',
  RU: 'Russian Federation|Russia|Россия',
  KR: 'South Korea|Korea, Republic of|Республика Корея|Южная Корея',
  VN: 'Viet Nam|Vietnam',
  NL: 'Holland|The Netherlands|Нидерланды',
  CI: "Ivory Coast|Côte d'Ivoire",
  TW: 'Taiwan, Province of China',
  IR: 'Iran, Islamic Republic of',
  '': 'ZZ|XX|A1|AP|EU|Unknown|N/A|-',
}
const LEVELS = {
  elite:
    'elite|Elite|elite proxy|elite_proxy|Elite-Proxy|High|high_anonymous|High-Anonymous|High Anonymity|highly anonymous|HIA|H|Level1|Level 1|level_1|L1',
  anonymous: 'anonymous|Anonymous Proxy|anonymous_proxy|anonymous server|ANM|A|Level 2|medium',
  transparent: 'transparent|transparent-proxy|Transparent_Proxy|NOA|N|Level-3|low',
}
const valuesOf = (words: { readonly [value: string]: string }): string =>
  Object.entries(words)
    .flatMap(([shows, texts]) => texts.split('|').map(text => `${text}>${shows}`))
    .join('|')

/** Values with what a proxy then shows, which is nothing where no text follows `>`. */
const VALUES: readonly (readonly [member: string, field: string, values: string])[] = [
  ['country', 'country', valuesOf(COUNTRIES)],
  ['anonymity', 'anon', valuesOf(LEVELS)],
  ['works', 'works', '97>97|97.5%>97|1>1'],
  ['success_rate', 'works', '0.97>97|97>97|1>100|0.5>50'],
  ['error_rate', 'works', '0.25>75'],
  ['ping', 'ping', '0.53>530|530 ms>530|60>60000|530>'],
  ['latency', 'ping', '0.4>400|0.53s>530|54ms>54|90s>'],
  ['response_time', 'ping', '1.2 sec>1200|1.2 seconds>1200'],
  ['response_time_s', 'ping', '0.4>400'],
  ['speed', 'speed', '1250000>1250000|1.5 MB/s>1500000|8 Mbps>1000000|800 kbps>100000'],
  ['speedkbps', 'speed', '800>100000'],
  ['speed_mbps', 'speed', '8>1000000'],
  ['download_speed', 'speed', '1>'],
  ['timecheck', 'age', '2026-11-20 13:59:00>60'],
  ['last_checked', 'age', '2026-11-20 11:59:00>60|2026-11-20 11:59:00.0>60'],
  ['last_checked', 'age', '2026-11-20T11:59:00Z>60|2026-11-20T13:59:00+02:00>60'],
  ['last_checked', 'age', '2026-11-20T11:59:00.000000>60|1795175940>60|1795175940123>60'],
  ['last_checked', 'age', '30 seconds ago>30|1 minute ago>60|2 minutes ago>120|1 hour ago>3600'],
  ['last_checked', 'age', '3 days ago>259200|just now>|Just now>'],
  ['last_seen', 'age', '5400>5400'],
]

test.each([
  ['Where,Kind,Lag⏎192.0.2.1:80,socks4,54', 'socks4 ping=54', 'Where=ip kind=type LAG=ping', 'ms'],
  ['ip,type,ping⏎192.0.2.1:80,http,53', 'http ping=53000', '', 's'],
  ['192.0.2.1:80,http,50', 'http ping=50000', '3=ping', 's'],
  ['ip,type,cc⏎192.0.2.1:80,http,DE', 'http', 'CC=-', 's'],
  ['[{"ip":"192.0.2.1:80","type":"http","lag":3}]', 'http ping=3000', 'lag=ping', 's'],
] as const)(
  '--map and --ping-unit name what the importer does not know: %s',
  async (text, shows, map, pingUnit) => {
    const mapping = new Map(
      map
        .split(' ')
        .filter(Boolean)
        .map(pair => pair.split('=') as [string, string]),
    )
    const source = sourceOf('list', text.replaceAll('⏎', '\n'))
    const { proxies } = await imported([source], { defaults: { ...DEFAULTS, pingUnit }, mapping })
    expect(proxies.map(shown)).toEqual([`192.0.2.1:80 ${shows}`])
  },
)

describe('the importer understands', () => {
  for (const [member, field, values] of VALUES) {
    test(`${member}: ${values.slice(0, 60)}`, async () => {
      const results: string[] = []
      const wanted: string[] = []
      for (const [, value = '', shows] of values.matchAll(/([^|]*)>([^|]*)/g)) {
        const row = { ip: '192.0.2.1:80', type: 'http', [member]: Number(value) || value }
        const csv = await shownOf(`ip,type,${member}\n192.0.2.1:80,http,"${value}"\n`)
        const json = await shownOf(`${JSON.stringify(row)}\n`)
        const proxy = `192.0.2.1:80 http${shows && ` ${field}=${shows}`}`
        results.push(`${value}: CSV ${csv}`, `${value}: JSON ${json}`)
        wanted.push(`${value}: CSV ${proxy}`, `${value}: JSON ${proxy}`)
      }
      expect(results).toEqual(wanted)
    })
  }
  test('words that mean unknown as no value, without a note', async () => {
    const { totals } = await read(
      '[{"ip":"192.0.2.1:80","country":"ZZ","city":"-","anon":"N/A"}]',
      HTTP,
    )
    expect(totals).toEqual({
      read: 1,
      rejected: 0,
      skipped: 0,
      missing: null,
      notes: [],
      ignored: [],
    })
  })
})

const FLAGS =
  'alive working is_valid valid active is_active online available up success last_status is_alive'
const flagged = (value: boolean) => FLAGS.split(' ').map(member => ({ [member]: value }))
const DOWN = 'failed dead down inactive offline unhealthy banned'.split(' ')
const DEAD = [
  ...flagged(false),
  ...DOWN.flatMap(word => [{ status: word }, { state: word.toUpperCase() }]),
  ...[{ is_active: true, health_status: 'down' }, { alive: 0 }, { alive: 'no' }],
]
const ALIVE = [
  ...flagged(true),
  ...[{ status: 'active' }, { status: 200 }, { status: 'ok' }, { state: 'up' }, { alive: 1 }],
]

describe('the importer skips', () => {
  test('each record that is marked as dead, but no other', async () => {
    const rows = [...DEAD, ...ALIVE].map((row, i) => ({ ip: `192.0.2.1:${i + 1}`, ...row }))
    const { proxies, totals } = await read(JSON.stringify(rows), HTTP)
    const taken = new Set(proxies.map(({ port }) => port))
    const isTaken = rows.map((row, i) => ({ ...row, isTaken: taken.has(i + 1) }))
    expect(isTaken).toEqual(rows.map((row, i) => ({ ...row, isTaken: i >= DEAD.length })))
    const { length } = rows
    expect(totals).toMatchObject({ read: length, skipped: DEAD.length, rejected: 0 })
    expect(totals.missing).toMatch(new RegExp(`^${DEAD.length} of ${length} rows .*dead`))
  })
})

const GOOD = 'http://192.0.2.1:80\n'
const TABLE = (name: string, value: string): string =>
  `ip,type,${name}\n192.0.2.1:80,http,\n192.0.2.2:80,http,${value}\n`
const CREDENTIALS = /user(name)? and .*password/
const FOREIGN = /protocol|type|not (a |one of )?(http|prox|support)|ss|trojan|vmess/
const REJECTED: readonly (readonly [what: string, text: string, why: RegExp])[] = [
  ['a host name', `${GOOD}proxy.example.com:8080\n`, /IPv4|host name/],
  ['an IPv6 address', `${GOOD}[2001:db8::1]:80\n`, /IPv4|IPv6/],
  ['user:pass@ip:port', `${GOOD}joe:secret@192.0.2.2:80\n`, CREDENTIALS],
  ['type://user:pass@ip:port', `${GOOD}http://joe:secret@192.0.2.2:80\n`, CREDENTIALS],
  ['ip:port:user:pass', `${GOOD}192.0.2.2:80:joe:secret\n`, CREDENTIALS],
  ['ip:port@user:pass', `${GOOD}192.0.2.2:80@joe:secret\n`, CREDENTIALS],
  ['a login of proxychains', 'http 192.0.2.1 80\nsocks5 192.0.2.2 1080 joe secret\n', CREDENTIALS],
  ['a column username', TABLE('username', 'joe'), CREDENTIALS],
  ['a column Password', TABLE('Password', 'secret'), CREDENTIALS],
  ['an ss link', `${GOOD}ss://YWVzOng=@192.0.2.2:8388\n`, FOREIGN],
  ['a trojan link', `${GOOD}trojan://secret@192.0.2.2:443\n`, FOREIGN],
  ['a vmess link', `${GOOD}vmess://eyJhZGQiOiIxOTIuMC4yLjIifQ==\n`, FOREIGN],
]

describe('the importer rejects', () => {
  for (const [what, text, why] of REJECTED) {
    test(what, async () => {
      const { proxies, rejected, totals } = await read(text)
      expect(proxies.map(({ ip }) => ip)).toEqual(['192.0.2.1'])
      expect(rejected.map(([, , field, reason]) => `${field} ${reason}`)).toEqual([
        expect.stringMatching(why),
      ])
      expect(totals).toMatchObject({ read: 2, rejected: 1, skipped: 0 })
      expect(totals.missing).toMatch(/^1 of 2 rows/)
    })
  }
  test('untyped rows from a URL whose scheme is https', async () => {
    await expect(read(UNTYPED, { file: 'https://example.com/list.txt' })).rejects.toThrow(/type/)
  })
  test('rows for several reasons, and counts them in one sentence', async () => {
    const { totals } = await read(
      'type,ip,up\nhttp,192.0.2.1:80,\n,192.0.2.2:80,\n,192.0.2.3:80,0\n',
    )
    expect(totals).toMatchObject({ read: 3, rejected: 1, skipped: 1 })
    expect(totals.missing).toMatch(/^2 of 3 rows .*(1.*dead.*1.*type|1.*type.*1.*dead)/)
  })
})

const MISUNDERSTOOD = {
  ...{ anon: 'super', country: 'Atlantis', ping: 'fast', works: 150, speed: 'quick' },
  ...{ smtp: 'maybe', ip_out: 'x', city: '=1+1' },
}

describe('a value that the importer does not understand', () => {
  for (const [field, value] of Object.entries(MISUNDERSTOOD)) {
    const row = (port: number, more = {}) => ({ ip: `192.0.2.1:${port}`, type: 'http', ...more })
    const rows = [row(1, { [field]: value }), row(2), row(3, { [field]: value })]
    const files = {
      JSON: JSON.stringify(rows),
      CSV: `ip,type,${field}\n192.0.2.1:1,http,${value}\n192.0.2.1:2,http,\n192.0.2.1:3,http,${value}\n`,
    }
    for (const [format, file] of Object.entries(files)) {
      test(`costs only the value: ${field} ${value} in ${format}`, async () => {
        const { proxies, totals } = await read(file)
        expect(proxies.map(shown)).toEqual([1, 2, 3].map(port => `192.0.2.1:${port} http`))
        expect(totals).toMatchObject({ read: 3, rejected: 0, skipped: 0, missing: null })
        const text = field === 'city' ? '' : value // a note may hide a formula
        const note = new RegExp(`\\b${field}\\b.*${text}.*\\b2\\b`)
        expect(totals.notes).toEqual([expect.stringMatching(note)])
      })
    }
    test(`makes --strict refuse the file: ${field} ${value}`, async () => {
      const outcome = read(files.JSON, { strict: true })
      await expect(outcome).rejects.toThrow(CommandError)
      await expect(outcome).rejects.toThrow(new RegExp(`\\b${field}\\b`))
    })
  }
})

test('an address under two types in one file has the better type, in any order', async () => {
  const ranked = ['socks5', 'socks4', 'https', 'http']
  for (const [i, better] of ranked.slice(0, -1).entries()) {
    for (const types of [ranked.slice(i), ranked.slice(i).reverse()]) {
      const { proxies } = await read(types.map(type => `${type}://192.0.2.1:80\n`).join(''))
      const list = openList(null)
      onCleanUp(list.close)
      const importTx = list.begin('merge')
      for (const proxy of proxies) importTx.add(proxy)
      await importTx.commit()
      const found = proxiesOf(list.proxies.findAll(NO_FILTER, { nowMs: T0, addressBits: 32 }))
      expect([types, ...found.map(proxy => bestOf(proxy.types))]).toEqual([
        types,
        better as ProxyType,
      ])
    }
  }
})
