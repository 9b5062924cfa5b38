/** Transcripts of `import`; see `transcript.ts` for their form. */
import { fails, prints, type Step, says, type Transcript } from '../support/transcript.ts'

export const BOTH = '192.0.2.1:8080\n192.0.2.2:1080\n'
const ALL = 'get=txt&time=999999999'

/** `--json` counts; what is not given is 0. */
export const counts = (given: { [count: string]: number }): string =>
  `${JSON.stringify({ read: 0, added: 0, updated: 0, unchanged: 0, rejected: 0, removed: 0, skipped: 0, ...given })}\n`
const summary = (given: { [count: string]: number }): string =>
  `${counts(given)
    .replace(/,"skipped":0|[{}"\n]/g, '')
    .replaceAll(':', ' ')
    .replaceAll(',', ', ')}\n`

/** An import with `--json` that gives these counts, and what it says. */
const imports = (
  args: string,
  given: { [count: string]: number },
  stderr: string | RegExp = '',
): Step => prints(`import ${args} --json`, counts(given), stderr)
const refused = (args: string, stderr: string | RegExp): Step => fails(`import ${args}`, stderr)
const lists = (query: string, stdout: string): Step => prints(['list', query], stdout)
const EMPTY = fails('list', 'proxylist: no proxies match the filters\n')

const TXT = '# two proxies\nhttp://192.0.2.1:8080\n\nsocks5://192.0.2.2:1080 # fast\n'
const CSV = 'type,ip,country,city\nhttp,192.0.2.1:8080,de,"Bad ""Ems"""\nsocks5,192.0.2.2:1080,,\n'
export const NDJSON =
  '{"ip":"192.0.2.1:8080","type":"http"}\n{"type":"socks5","ip":"192.0.2.2","port":"1080"}\n'
const JSON_ARRAY = `[${NDJSON.trim().replace('\n', ',')}]`
const JSON_OBJECT = '{"192.0.2.1:8080":{"type":"http"},"192.0.2.2:1080":{"type":"socks5"}}'

/** One list in every format. */
const IN_FORMATS = [
  { format: 'txt', text: TXT },
  { format: 'csv', text: CSV },
  { format: 'ndjson', text: NDJSON },
  { format: 'json', text: JSON_ARRAY },
  { format: 'json', text: JSON_OBJECT },
  { format: 'json', text: `{"status":"ok","count":2,"data":${JSON_ARRAY}}` },
]

export const FORMATS: readonly Transcript[] = [
  {
    name: 'the content of a file decides its format, not its name',
    files: Object.fromEntries(IN_FORMATS.map(({ text }, i) => [`list-${i}`, text])),
    steps: IN_FORMATS.flatMap((_, i) => [
      imports(`list-${i} --data data-${i}`, { read: 2, added: 2 }),
      prints(['list', ALL, '--data', `data-${i}`], BOTH),
    ]),
  },
  {
    name: '--format names the format of stdin',
    steps: IN_FORMATS.slice(0, 4).map(({ format, text }, i) => ({
      ...imports(`- --format ${format} --data data-${i}`, { read: 2, added: 2 }),
      stdin: text,
    })),
  },
]

const BARE = '192.0.2.1:8080\n192.0.2.2:1080\n'
const bad = (from: number, to: number): string =>
  Array.from({ length: to - from + 1 }, (_, i) => `nonsense-${from + i}\n`).join('')
const BAD = 'ip must be an IPv4 address with a port, a.b.c.d:port'
const badLines = (from: number, to: number): string =>
  Array.from({ length: to - from + 1 }, (_, i) => `a.txt:${from + i}: ${BAD}\n`).join('')

export const ROWS: readonly Transcript[] = [
  {
    name: 'counts go to stderr, in words, and stdout stays empty',
    files: { 'a.txt': TXT },
    steps: [says('import a.txt', summary({ read: 2, added: 2 }))],
  },
  {
    name: 'rows without a type are rejected, naming --type',
    files: { 'a.txt': BARE },
    steps: [
      refused(
        'a.txt --json',
        /^a\.txt:1: type .*--type.*\na\.txt:2: type .*\nproxylist: a\.txt: [^\n]+\n$/,
      ),
    ],
  },
  {
    name: 'the first 20 rejected rows are named, the others counted',
    files: {
      'a.txt': `http://192.0.2.1:80\n${bad(2, 26)}`,
      'b.txt': `http://192.0.2.2:80\n${bad(2, 21)}`,
    },
    steps: [
      imports(
        'a.txt',
        { read: 26, added: 1, rejected: 25 },
        `${badLines(2, 21)}… and 5 more rejected rows\n25 of 26 rows are missing (25: ${BAD})\n`,
      ),
      imports(
        'b.txt',
        { read: 21, added: 1, rejected: 20 },
        badLines(2, 21).replaceAll('a.txt', 'b.txt'),
      ),
    ],
  },
]

const OTHERS = 'http://192.0.2.3:80\nhttp://192.0.2.2:1080\n'

const many = (rows: number): string =>
  Array.from({ length: rows }, (_, i) => `http://192.0.2.${i}:80\n`).join('')

/** What `--replace` refuses, and how an operator says that it is meant. */
export const GUARDS: readonly Transcript[] = [
  {
    name: '--replace with a file without rows needs --allow-empty',
    files: { 'a.txt': TXT, 'empty.json': '[]', empty: '' },
    steps: [
      imports('a.txt', { read: 2, added: 2 }),
      ...['empty.json', 'empty'].map(file =>
        refused(
          `${file} --replace`,
          `proxylist: ${file} has no rows and would empty the list; nothing was imported (--allow-empty permits it)\n`,
        ),
      ),
      refused('empty --replace --allow-shrink', /has no rows.*--allow-empty/),
      prints('list', BOTH),
      imports('empty --replace --allow-empty', { removed: 2 }, 'empty: note: no row was found\n'),
    ],
  },
  {
    name: '--replace that shrinks a list of 100 rows to under half needs --allow-shrink',
    files: { 'a.txt': many(100), 'b.txt': many(49), 'c.txt': `${many(49)}x\n`, empty: '' },
    steps: [
      imports('a.txt', { read: 100, added: 100 }),
      refused(
        'b.txt --replace',
        'proxylist: this would shrink the list from 100 rows to 49; nothing was imported (--allow-shrink if that is meant)\n',
      ),
      refused('c.txt --replace', /^c\.txt:50: .*\nproxylist: this would/),
      refused(
        'b.txt empty --replace --allow-empty',
        /shrink the list from 100 rows to 49; nothing was imported \(--allow-shrink/,
      ),
      prints('list count=1000', many(100).replaceAll('http://', '')),
      imports('b.txt', { read: 49, unchanged: 49 }),
      imports('b.txt --replace --allow-shrink', { read: 49, unchanged: 49, removed: 51 }),
      imports('a.txt', { read: 100, added: 51, unchanged: 49 }),
      imports('empty --replace --allow-empty', { removed: 100 }, 'empty: note: no row was found\n'),
    ],
  },
]

/** Lists as they are found: what the command line adds to `test/import/found-lists.test.ts`. */
export const FOUND: readonly Transcript[] = [
  {
    name: '--map refuses an unknown column or member',
    files: {
      'a.csv': 'ip,type\n192.0.2.1:80,http\n',
      'a.txt': '192.0.2.1,80,http\n192.0.2.2,80,http\n',
      'a.ndjson': '{"ip":"192.0.2.1:80","type":"http"}\n',
    },
    steps: [
      ['a.csv --map Nope=country', "'Nope'"],
      ['a.csv --map typ=country', "'typ'"],
      ['a.csv --map 2=country', "'2'"],
      ['a.txt --map 9=country', "'9'"],
      ['a.ndjson --map where=country', "'where'"],
    ].map(([args = '', says]) =>
      refused(
        args,
        `proxylist: --map: no column or member is called ${says}; nothing was imported\n`,
      ),
    ),
  },
  {
    name: '--map takes a column of one file, and a member of one record',
    files: {
      'a.csv': 'ip,kind\n192.0.2.1:80,http\n',
      'b.csv': 'ip,type\n192.0.2.2:80,http\n',
      'c.ndjson':
        '{"ip":"192.0.2.3:80","type":"http"}\n{"ip":"192.0.2.4:80","type":"http","Land":"DE"}\n',
      empty: '',
    },
    steps: [
      imports('a.csv b.csv c.ndjson --map kind=type --map land=country', { read: 4, added: 4 }),
      lists('country=de', '192.0.2.4:80\n'),
      imports('empty --map kind=type', {}, 'empty: note: no row was found\n'),
    ],
  },
  {
    name: '--map by number wins over the content of a column',
    files: { 'a.txt': '192.0.2.1,80,http,US,DE\n192.0.2.2,80,http,US,DE\n' },
    steps: [
      imports('a.txt --map 4=- --map 5=country --map 1=ip', { read: 2, added: 2 }),
      lists('country=de&count=1', '192.0.2.1:80\n'),
    ],
  },
  {
    name: '--map names columns and --ping-unit a unit, also as variables',
    files: { 'a.csv': 'Where,Kind,Lag\n192.0.2.1:80,http,530\n' },
    steps: [
      imports('a.csv --map where=ip --map Kind=type --map Lag=ping --ping-unit ms', {
        ...{ read: 1, added: 1 },
      }),
      {
        ...imports('a.csv', { read: 1, unchanged: 1 }),
        env: { PROXYLIST_MAP: 'Where=ip,Kind=type,Lag=ping', PROXYLIST_PING_UNIT: 'ms' },
      },
      lists('get=json&fields=ip,ping&pretty=0', '[{"ip":"192.0.2.1:80","ping":0.53}]'),
    ],
  },
  {
    name: 'the first 20 ignored fields are named, the others counted',
    files: {
      'a.csv': `ip,type,${Array.from({ length: 25 }, (_, i) => `c${i}`).join(',')}\n192.0.2.1:80,http${',x'.repeat(25)}\n`,
    },
    steps: [
      imports(
        'a.csv',
        { read: 1, added: 1 },
        /^note: fields that are not read: (?:c\d+, ){20}and 5 more\n$/,
      ),
    ],
  },
]

export const WHOLE_LISTS: readonly Transcript[] = [
  {
    name: '--replace swaps the whole list',
    files: { 'a.txt': TXT, 'b.txt': OTHERS },
    steps: [
      imports('a.txt', { read: 2, added: 2 }),
      imports('b.txt --replace', { read: 2, added: 1, updated: 1, removed: 1 }),
      lists('type_prefix=1', 'http://192.0.2.2:1080\nhttp://192.0.2.3:80\n'),
    ],
  },
  {
    name: '--strict refuses everything at the first bad row and names it',
    files: { 'a.txt': 'http://192.0.2.1:80\nnonsense\nrubbish\n' },
    steps: [refused('a.txt --strict --json', `proxylist: ${badLines(2, 2)}`), EMPTY],
  },
  {
    name: 'several files and stdin become one import',
    files: { 'a.txt': TXT, 'b.txt': OTHERS },
    steps: [
      {
        ...imports('a.txt b.txt -', { read: 5, added: 4, updated: 1 }), // one type changes
        stdin: 'ip,type\n192.0.2.9:80,http\n',
      },
    ],
  },
  {
    name: 'a file that is missing, of no known format or has only bad rows stops the import',
    files: {
      'a.txt': TXT,
      'b.bin': '\u0000\u0001\u0002',
      'c.csv': 'ip,type\n192.0.2.9,http\n',
      'd.html': '<!doctype html><title>Not found</title>\n',
      'sub/a.txt': TXT,
    },
    steps: [
      refused('a.txt gone.txt', /cannot read gone\.txt/),
      fails('list', /^proxylist: there is no data directory \.\/data; /),
      refused('a.txt b.bin', /^proxylist: b\.bin: [^\n]+\n$/),
      refused('a.txt c.csv', /\nproxylist: c\.csv: [^\n]+\n$/),
      EMPTY,
      refused('d.html --replace', /^proxylist: d\.html: /),
      refused('sub', /^proxylist: cannot read sub: [^\n]+\n$/),
      refused('a.txt --format JSON', /^proxylist: a\.txt: /),
      EMPTY,
    ],
  },
  {
    name: '--provider-service names the fifth service',
    files: { 'a.ndjson': '{"ip":"192.0.2.1:80","type":"http","acme":true}\n' },
    steps: [
      imports('a.ndjson --provider-service acme', { read: 1, added: 1 }),
      prints(
        'list get=json&pretty=0&fields=ip,acme&service=acme --provider-service acme',
        '[{"ip":"192.0.2.1:80","acme":true}]',
      ),
    ],
  },
]
