/** Transcripts of `list`; see `transcript.ts` for their form. */
import type { TestRow } from '../support/fixtures.ts'
import { fails, prints, type Transcript } from '../support/transcript.ts'
import { BOTH, counts, NDJSON } from './import.cases.ts'

const QUERIES: { readonly [query: string]: string } = {
  'type=socks5': '192.0.2.2:1080\n',
  '?type=http&type_prefix=1': 'http://192.0.2.1:8080\n',
  'count=1&get=txt.file': '192.0.2.1:8080\n',
  'get=json&fields=ip,type&pretty=0&port=1080': '[{"ip":"192.0.2.2:1080","type":"socks5"}]',
  'get=csv&fields=ip,type': 'ip,type\r\n192.0.2.1:8080,http\r\n192.0.2.2:1080,socks5\r\n',
  'get=csv.file&fields=ip,port&split_ip=1&port=1080': 'ip,port\r\n192.0.2.2,1080\r\n',
  'get=ndjson&fields=ip,type':
    '{"ip":"192.0.2.1:8080","type":"http"}\n{"ip":"192.0.2.2:1080","type":"socks5"}\n',
  'sort=works': BOTH,
  'sort=random&port=1080': '192.0.2.2:1080\n',
}

export const LISTS: readonly Transcript[] = [
  {
    name: 'prints the proxies that match a query, in its form',
    files: { 'a.ndjson': NDJSON },
    steps: [
      prints('import a.ndjson --json', counts({ read: 2, added: 2 })),
      prints('list', BOTH),
      ...Object.entries(QUERIES).map(([query, stdout]) => prints(['list', query], stdout)),
      fails('list country=de', 'proxylist: no proxies match the filters\n'),
    ],
  },
]

const KNOWN = { ip_out: '2001:db8::1', anon: 'elite', country: 'RU', works: 97, city: 'Омск' }
/** Rows of every kind, for round trips. */
export const MIXED: readonly TestRow[] = [
  { ip: '192.0.2.1:1080', type: 'socks5', ...KNOWN, city_en: 'Omsk', smtp: true, ping: 0.532 },
  { ip: '192.0.2.1:1081', type: 'http', ...KNOWN, 'the service': true, speed: 123, ping: 0 },
  { ip: '192.0.2.1:80', type: 'socks4', age: 86_400 * 300 },
  { ip: '10.0.0.7:65535', type: 'https', city: 'Ann "Arbor" \\ 日本', ping: 1234.567, age: -200 },
]
