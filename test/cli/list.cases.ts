/** Transcripts of `list`; see `transcript.ts` for their form. */
import type { TestRow } from '../support/fixtures.ts'
import type { Step, Transcript } from '../support/transcript.ts'
import { BOTH, counts, NDJSON } from './import.cases.ts'

const LISTED = { 'a.ndjson': NDJSON }
const FILLED: Step = { args: 'import a.ndjson --json', stdout: counts({ read: 2, added: 2 }) }
const listed = (query: readonly string[], outcome: Omit<Step, 'args'>): Transcript => ({
  name: JSON.stringify(query),
  files: LISTED,
  steps: [FILLED, { args: ['list', ...query], ...outcome }],
})

export const LISTS: readonly Transcript[] = [
  listed([], { stdout: BOTH }),
  listed(['type=socks5'], { stdout: '192.0.2.2:1080\n' }),
  listed(['?type=http&type_prefix=1'], { stdout: 'http://192.0.2.1:8080\n' }),
  listed(['count=1&get=txt.file'], { stdout: '192.0.2.1:8080\n' }),
  listed(['get=json&fields=ip,type&pretty=0&port=1080'], {
    stdout: '[{"ip":"192.0.2.2:1080","type":"socks5"}]',
  }),
  listed(['get=csv&fields=ip,type'], {
    stdout: 'ip,type\r\n192.0.2.1:8080,http\r\n192.0.2.2:1080,socks5\r\n',
  }),
  listed(['get=csv.file&fields=ip,port&split_ip=1&port=1080'], {
    stdout: 'ip,port\r\n192.0.2.2,1080\r\n',
  }),
  listed(['get=ndjson&fields=ip,type'], {
    stdout: '{"ip":"192.0.2.1:8080","type":"http"}\n{"ip":"192.0.2.2:1080","type":"socks5"}\n',
  }),
  listed(['sort=works'], { stdout: BOTH }),
  listed(['sort=random&port=1080'], { stdout: '192.0.2.2:1080\n' }),
  listed(['get=csv&fields=port'], {
    exitCode: 2,
    stderr: /fields=port shows nothing without split_ip=1/,
  }),
  listed(['contry='], { exitCode: 2, stderr: /'contry'; did you mean 'country'\?/ }),
  listed(['country=de'], { exitCode: 1, stderr: 'proxylist: no proxies match the filters\n' }),
  listed(['contry=de'], { exitCode: 2, stderr: /'contry'; did you mean 'country'\?/ }),
  listed(['works=101'], {
    exitCode: 2,
    stderr: 'proxylist: works must be an integer from 0 to 100\n',
  }),
  listed(['type=%ff'], { exitCode: 2, stderr: /type/ }),
  listed(['type=http\ncountry=de'], { exitCode: 2, stderr: /type must be/ }),
]

const KNOWN = { ip_out: '2001:db8::1', anon: 'elite', country: 'RU', works: 97, city: 'Омск' }
/** Rows of every kind, for round trips. */
export const MIXED: readonly TestRow[] = [
  { ip: '192.0.2.1:1080', type: 'socks5', ...KNOWN, city_en: 'Omsk', smtp: true, ping: 0.532 },
  { ip: '192.0.2.1:1081', type: 'http', ...KNOWN, 'the service': true, speed: 123, ping: 0 },
  { ip: '192.0.2.1:80', type: 'socks4', age: 86_400 * 300 },
  { ip: '10.0.0.7:65535', type: 'https', city: 'Ann "Arbor" \\ 日本', ping: 1234.567, age: -200 },
]
