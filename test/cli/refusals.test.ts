/** What the command line refuses: each is one sentence, and changes and makes nothing. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { COMMANDS } from '../../src/cli/program.ts'
import { DAY_MS } from '../../src/lib/time.ts'
import { openRegistry } from '../../src/sqlite/stores.ts'
import { addKeys, addList, T0 } from '../support/fixtures.ts'
import { CERTIFICATES } from '../support/judge.ts'
import { mmdb } from '../support/mmdb.ts'
import { cleanUp } from '../support/temporary.ts'
import { directoryOf, runCommand } from '../support/transcript.ts'

afterAll(cleanUp)

/** The directory in which all is refused: its data has keys, plans and a list. */
const cwd = directoryOf({
  ...{ 'a.txt': 'http://192.0.2.1:80\n', 'a.tar': 'x', 'empty.mmdb': '', 'dir/here': '' },
  'feeds.conf': 'a.txt\nb.txt typ=http\n',
  'latin.conf': Buffer.from('/caf\xe9\n', 'latin1'),
  'asn.mmdb': mmdb({ '192.0.2.0/24': { autonomous_system_number: 1 } }, { type: 'GeoLite2-ASN' }),
})
const data = join(cwd, 'data')
/** Ids that lines name. */
const ids: { [name: string]: string } = {}
beforeAll(() => {
  expect(Bun.spawnSync(['mkfifo', join(cwd, 'pipe')]).exitCode).toBe(0)
  addList(data, [{ ip: '192.0.2.1:80', type: 'http' }])
  const keys = [
    { key: 'one', plan: 'classic' },
    { key: 'temp_one', plan: null, expiresAt: T0 + DAY_MS },
    { key: 'revoked', plan: 'classic', revokedAt: T0 },
  ]
  const [one = '', temporary = '', revoked = ''] = addKeys(data, {}, keys, T0)
  Object.assign(ids, { ID: one, TEMP: temporary, REVOKED: revoked })
})

/** All files, keys and plans. */
function stored(): unknown {
  const registry = openRegistry(data)
  const known = [registry.keys.dump(), registry.plans.list()]
  registry.close()
  const files = readdirSync(cwd, { recursive: true }).map(String)
  return [...known, files.filter(name => !/-(?:wal|shm)$|\.lock$/.test(name)).toSorted()]
}

/** Runs a line, whose spaces in quotes are kept, and expects a refusal. */
async function expectRefusal(line: string, exitCode: 1 | 2, says: string | RegExp) {
  const before = stored()
  const words = [...line.matchAll(/'([^']*)'|(\S+)/g)].map(
    ([, quoted, word = '']) => quoted ?? word,
  )
  const args = words.map(word => ids[word] ?? word)
  const { stdout, stderr, ...outcome } = await runCommand(args, { cwd })
  const [, sentence = ''] = /^proxylist: ([^\n]+)\n$/.exec(stderr) ?? []
  expect([outcome.exitCode, stdout, sentence]).toEqual([exitCode, '', expect.stringMatching(/./)])
  if (typeof says === 'string') expect(sentence).toBe(says)
  else expect(sentence).toMatch(says)
  expect(stored()).toEqual(before)
}

type Table = readonly (readonly [line: string, says: string | RegExp])[]

/** What the command line does not have. `test/lib/did-you-mean.test.ts` has what is near enough. */
const UNKNOWN: Table = [
  ['lst', "unknown command 'lst'; did you mean 'list'?"],
  ['key add', "unknown command 'key'; did you mean 'keys'?"],
  ['keys ad', "unknown command 'ad'; did you mean 'add'?"],
  ['plans remov x', "unknown command 'remov'; did you mean 'remove'?"],
  ['frobnicate', "unknown command 'frobnicate'"],
  ['serve --lsten 127.0.0.1:0', "unknown option '--lsten'; did you mean '--listen'?"],
  ['keys add --exipres 30d', "unknown option '--exipres'; did you mean '--expires'?"],
  ['--verison', "unknown option '--verison'; did you mean '--version'?"],
  ['serve --frobnicate', "unknown option '--frobnicate'"],
  ['-x', "unknown option '-x'"],
  ["help 'keys ad'", "unknown topic 'keys ad'; did you mean 'keys add'?"],
  ['help feedz', "unknown topic 'feedz'; did you mean 'feeds'?"],
  ['help serve now', "unknown topic 'serve now'; proxylist help lists them"],
  ['help --data', "unknown option '--data'"],
  ['completions tcsh', 'there are completions for bash, zsh, fish'],
]

const ARGUMENTS: Table = [
  ['version extra', "too many arguments for 'version': it takes 0, not 1"],
  ['list key=k-secret extra', "too many arguments for 'list': it takes 1, not 2"],
  ['keys revoke a b', "too many arguments for 'revoke': it takes 1, not 2"],
  ['import', /missing.*argument.*file/],
  ['keys revoke', /missing.*argument.*id/],
  ['plans set', /missing.*argument.*name/],
  ['list --data', /--data .*missing/],
  ['keys add --plan', /--plan .*missing/],
]

/** One bad value of each command. `test/config/settings.test.ts` has all that each option refuses. */
const VALUES: Table = [
  ['import a.txt --type ftp', /^--type must be http or https /],
  ["import a.txt --type ''", /^--type must be /],
  ['import a.txt --database-timeout 0s', /^--database-timeout must be /],
  ['import a.txt --map a=contry', /no field is called 'contry'; did you mean 'country'/],
  ['import a.txt --map a=x', /no field is called 'x'; the fields are ip, port, /],
  ['keys list --database mysql://10.0.0.1/x', /^--database must be /],
  ['keys temp --ttl 0h', /^--ttl must lie in the future/],
  ['keys add --key temp_0123456789abcdef', /^--key must be /],
  ['keys add --expires 2026-11-20T12:00:00Z', /^--expires must lie in the future, at most 100 y/],
  ['keys add --expires 9999w', /^--expires must lie in the future, at most 100 y/],
  ['plans set small --burst 5/1500ms', /^--burst must be /],
  ["plans set 'Big Plan'", /^NAME must be /],
  ['serve --listen nowhere', /^--listen must be /],
  ['serve --retain 0s', /^--retain must be /],
  ["fetch --feeds ''", /^--feeds must be /],
  ['console --admin-listen unix:', /^--admin-listen must be /],
  ['judge --listen unix:/tmp/x', '--listen must be HOST:PORT or :PORT'],
  ['list works=101', 'works must be an integer from 0 to 100'],
  ['list contry=', /'contry'; did you mean 'country'\?/],
  ['list type=%ff', /type/],
  ["list 'type=http\ncountry=de'", /type must be/],
  ['list get=csv&fields=port', /fields=port shows nothing without split_ip=1/],
]

const LINE =
  'a feed is SOURCE [type=socks5] [format=csv] [ping-unit=ms] [map=COLUMN=FIELD] [every=60s] ' +
  '[replace] [check] [headers=FILE], SOURCE a URL or a path'
/** `test/feeds/feed.test.ts` has all mistakes of a line. */
const FEEDS: Table = [
  ["fetch --feed 'a.txt replace' --feed b.txt", /^the feed a.txt says replace, .* only feed$/],
  ["fetch --feed 'a.txt map=delay=pingg'", /no field is called 'pingg'; did you mean 'ping'\?$/],
  ['serve --feeds feeds.conf', `feeds.conf:2: unknown option 'typ'; ${LINE}`],
  ['fetch --feeds feeds.conf', `feeds.conf:2: unknown option 'typ'; ${LINE}`],
  ['fetch --feeds latin.conf', /^cannot read the feeds file latin.conf: it is not text in UTF-8; /],
  [
    'serve --feed ftp://me:SECRET@h/?key=SECRET',
    /^--feed: ftp:\/\/\*\*\*@h\/\?key=\*\*\* must be an /,
  ],
  ['serve --sample --feed a.txt', '--sample serves the built-in list, which has no feeds'],
  ['serve --sample --feeds /dev/null', '--sample serves the built-in list, which has no feeds'],
]

/** A database that no command reaches before it refuses. */
const AWAY = '--database postgres://nobody:secret@127.0.0.1:1/nothing'
const ADMIN = '--admin-listen must be another address than --listen'
const JUDGED = 'check --judge http://judge.example.com --judge-secret none'
const CHECK = `${JUDGED} --contact https://example.com/checks`
const { cert, key } = CERTIFICATES.judge
const PAIR = `--cert ${cert} --key ${key}`
const TLS = '--listen 127.0.0.1:0 --listen-tls 127.0.0.1:0 --judge-secret /none'

/** Options that need others, or exclude them. */
const TOGETHER: Table = [
  ['serve --listen :8080 --admin-listen :8080', ADMIN],
  ['serve --listen unix:a.sock --admin-listen unix:a.sock', ADMIN],
  ['serve --metrics-open', '--metrics-open is for the admin listener: give --admin-listen, too'],
  [`serve --sample ${AWAY}`, '--sample serves the built-in list, not one of --database'],
  ['console --admin-listen :0', '--admin-listen must name the port that serve has printed, not 0'],
  ['backup - --json', '--json needs a FILE: with -, stdout is the archive'],
  [`restore a.tar --force ${AWAY}`, /^--force replaces the data of a data directory; a database /],
  ['keys set ID', 'nothing to change: give --plan, --label, --note, --from or --expires'],
  ['keys set ID --label x --expires 2020-01-01', /^--expires must lie in the future, at most /],
  ['keys reset ID --address 192.0.2.1', '--address is for demo and temp'],
  ['plans set demo --subnets 3', 'plan demo counts no networks: it has no --subnets and --clients'],
  ['plans set demo --clients 3', 'plan demo counts no networks: it has no --subnets and --clients'],
  ['check', /^--judge URL is required; run one .*: proxylist judge$/],
  ['check --judge http://judge.example.com/page', /^--judge must be the URL of a judge, such as /],
  [JUDGED, /^--contact URL is required: owners of checked addresses see it/],
  [CHECK.replace(' --judge-secret none', ''), /^--judge-secret FILE is required, a copy of the /],
  [`${CHECK} --target bank=http://a/`, /^--target must be one of telegram, avito, google, the se/],
  [`${CHECK} --once --get txt a.txt --data data`, '--get requires --once FILE without --data'],
  [`${CHECK} --judge-ca a.txt`, 'a.txt is not a certificate in PEM'],
  [`${CHECK} --dry-run --feeds feeds.txt`, /^--feeds requires --data DIR .*excludes --dry-run$/],
  ['judge', /^--judge-secret FILE is required: judge and check share it; it is created if /],
  [`judge ${TLS}`, '--listen-tls requires --cert FILE and --key FILE'],
  [`judge ${TLS} --cert ${cert}`, '--listen-tls requires --cert FILE and --key FILE'],
  [`judge --judge-secret /none ${PAIR}`, '--cert and --key require --listen-tls'],
  [
    `judge ${TLS} --cert ${cert} --key ${CERTIFICATES.renewed.key}`,
    `${CERTIFICATES.renewed.key} is not the private key of ${cert}, in PEM without a password`,
  ],
  ['judge --judge-secret /none/x', /^the secret \/none\/x cannot be created: no such file or /],
]

describe('wrong usage has status 2:', () => {
  const all = [...UNKNOWN, ...ARGUMENTS, ...VALUES, ...FEEDS, ...TOGETHER]
  test.each(all)('%s', (line, says) => expectRefusal(line, 2, says))
})

const NO_KEY = 'there is no key with this id; see proxylist keys list'
const KEYS: Table = [
  ['keys set nobody00 --label x', NO_KEY],
  ...['rotate', 'remove', 'show', 'reset', 'revoke'].map(
    word => [`keys ${word} nobody00`, NO_KEY] as const,
  ),
  ['keys add --plan gold', "there is no plan 'gold' for keys; plans are classic, standard"],
  ['keys add --plan temp', "there is no plan 'temp' for keys; plans are classic, standard"],
  ['keys set ID --plan demo', "there is no plan 'demo' for keys; plans are classic, standard"],
  ['keys set TEMP --plan standard', 'this is a temporary key: its plan is temp and stays'],
  ['keys set TEMP --expires never', 'this is a temporary key, which must end'],
  ['keys rotate REVOKED', 'this key is revoked: make a new one'],
  ['keys remove ID', /^key \S+ is not revoked; first: proxylist keys revoke \S+$/],
  ['keys import none.csv', 'cannot read none.csv: no such file or directory'],
  ['keys import /', 'cannot read /: it is a directory, not a file'],
  ['plans remove small', /there is no plan of this name/],
  ['plans remove demo', /demo is built in and stays/],
]

const NOT_MMDB = 'is not a database in the format of MaxMind'
const MISSING = 'no such file or directory'
/** Status 1, because the file may be right later: systemd starts a server again. */
const UNREADABLE: Table = [
  ['serve --feeds none.conf', `cannot read the feeds file none.conf: ${MISSING}`],
  ['fetch --feeds none.conf', `cannot read the feeds file none.conf: ${MISSING}`],
  ['serve --feeds pipe', 'cannot read the feeds file pipe: it is not a regular file'],
  ['serve --geoip pipe', 'cannot read pipe: it is not a regular file'],
  ['serve --geoip asn.mmdb', /^asn\.mmdb is a GeoLite2-ASN database; places need a City or/],
  ['import a.txt --geoip none.mmdb', `cannot read none.mmdb: ${MISSING}`],
  ['import a.txt --geoip empty.mmdb', RegExp(`^empty\\.mmdb ${NOT_MMDB}`)],
  ['import a.txt --geoip a.txt', RegExp(`^a\\.txt ${NOT_MMDB}`)],
  [`judge ${TLS} --cert /none.pem --key ${key}`, `cannot read /none.pem: ${MISSING}`],
  ['keys list --data dir', /^there is no dir\/access\.db; create a key with: proxylist keys add$/],
  ['plans list --data dir', /^there is no dir\/access\.db; create a key with: proxylist keys add$/],
  ['list --data dir', 'there is no dir/proxies.db; fill it with: proxylist import FILE'],
  ['list --data a.txt/deep', /^the data directory a.txt\/deep cannot be used: a part of its path /],
  ['keys add --data /dev/null/x', / \/dev\/null\/x/],
  [`serve --data data ${AWAY}`, /no copy of a shared da/],
  [`serve --data /proc/x ${AWAY}`, `cannot use the data directory /proc/x: ${MISSING}`],
]

/** What to type after the name of a command, where that is needed. */
const TYPED: { readonly [command: string]: string } = {
  ...{ import: 'a.txt', 'keys import': 'a.txt', backup: 'b.tar', restore: 'a.tar' },
  ...{ 'plans set': 'small', 'plans remove': 'small', 'check explain': '203.0.113.7:80' },
  ...{ 'keys set': 'k3x9m2ab --label a', serve: '--listen 127.0.0.1:0' },
  ...Object.fromEntries(
    ['show', 'rotate', 'reset', 'revoke', 'remove'].map(word => [`keys ${word}`, 'k3x9m2ab']),
  ),
}
const lineOf = (name: string): string => `${name} ${TYPED[name] ?? ''}`
const FILE_AS_DATA: Table = COMMANDS.filter(({ settings }) => settings.includes('data')).map(
  ({ name }) => [
    `${lineOf(name)} --data a.txt`,
    'the data directory a.txt cannot be used: it is not a directory',
  ],
)
/** Commands that only read or change: a mistyped --data does not make a directory. */
const MISTYPED: Table = ['list', 'backup', 'stats', 'feeds', 'console', 'plans list']
  .concat('plans remove')
  .concat(['list', 'export', 'show', 'set', 'rotate', 'reset', 'revoke'].map(w => `keys ${w}`))
  .concat('keys remove')
  .map(name => [
    `${lineOf(name)} --data dta`,
    /^there is no data directory dta; check --data, or create it with: /,
  ])

describe('a failure has status 1:', () => {
  const all = [...KEYS, ...UNREADABLE, ...FILE_AS_DATA, ...MISTYPED]
  test.each(all)('%s', (line, says) => expectRefusal(line, 1, says))
})

const bad = (lines: number): string =>
  `proxylist: -: ${lines} bad line${lines === 1 ? '' : 's'}; no key was imported`
/** A line as `keys export` writes it, except what is given. */
function exported(changes: { readonly [member: string]: unknown } = {}): string {
  const hash = Bun.SHA256.hash(JSON.stringify(changes), 'hex')
  const of = { label: '', note: '', plan: 'standard', created: '2026-01-01T00:00:00Z' }
  const ends = { expires: null, revoked: null, old_secrets: [] }
  const id = hash.slice(0, 8).replace(/[01]/g, 'a')
  return `${JSON.stringify({ id, hash, prefix: '', ...of, ...ends, ...changes })}\n`
}
const NO_GOLD = "there is no plan 'gold'; make it with: proxylist plans set gold"
/** What is wrong with a file, and what import says. */
const BAD_FILES: readonly (readonly [string, () => string, readonly (string | RegExp)[]])[] = [
  [
    'an unknown plan, reported once, and keys that are known or duplicate',
    () => {
      const known = { hash: Bun.SHA256.hash('one', 'hex') }
      const gold = [1, 2].map(n => exported({ plan: 'gold', note: String(n) })).join('')
      return exported() + gold + exported() + exported(known)
    },
    [
      `-:2: ${NO_GOLD}`,
      ...[4, 5].map(n => RegExp(`^-:${n}: this key exists, as [a-z0-9]{8} or in an earlier line$`)),
      bad(3),
    ],
  ],
  [
    'plans that are not for keys',
    () => exported({ plan: 'demo' }) + exported({ plan: 'temp' }),
    ['-:1: plan demo is not for regular keys', '-:2: plan temp is not for regular keys', bad(2)],
  ],
  [
    'a temporary key without an end',
    () => exported({ plan: null }),
    ['-:1: a temporary key (its plan is null) must end', bad(1)],
  ],
  [
    'other JSON, without repeating a possible key',
    () =>
      `{"id":"abc"}\n{"id":"abc","hash":"00","old_secrets":[]}\n{bad secret-\n${exported({ prefix: 'a\0' })}`,
    [
      '-:1: old_secrets must be an array',
      '-:2: hash is missing or is not as keys export writes it',
      '-:3: it is not JSON',
      '-:4: prefix is missing or is not as keys export writes it',
      bad(4),
    ],
  ],
]

test.each(BAD_FILES)('keys import refuses a whole file with %s', async (_, text, lines) => {
  const before = stored()
  const outcome = await runCommand(['keys', 'import', '-'], { cwd, stdin: text() })
  expect<unknown>([outcome.exitCode, outcome.stdout, outcome.stderr.trim().split('\n')]).toEqual([
    1,
    '',
    lines.map(line => (typeof line === 'string' ? line : expect.stringMatching(line))),
  ])
  expect(outcome.stderr).not.toContain('secret-')
  expect(stored()).toEqual(before)
})
