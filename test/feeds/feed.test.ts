/** Lines of feeds and header files, and what of a source is shown. */
import { describe, expect, test } from 'bun:test'
import {
  checkFeeds,
  type Feed,
  inFeedLine,
  lineOf,
  maskSource,
  optionsOf,
  parseFeeds,
  parseFeedsFile,
  parseHeaders,
} from '../../src/feeds/feed.ts'
import { withLine } from '../../src/feeds/feeds-file.ts'
import { CommandError } from '../../src/lib/errors.ts'
import { HOUR_MS, MINUTE_MS, SECOND_MS } from '../../src/lib/time.ts'

const EVERY_MS = MINUTE_MS
const parse = (text: string): Feed[] => parseFeeds(text, EVERY_MS, '--feed')
const one = (text: string): Feed => {
  const [feed, ...others] = parse(text)
  if (feed === undefined || others.length > 0) throw new Error(`${text} is not one feed`)
  return feed
}

const OPTIONS: readonly (readonly [line: string, options: Partial<Feed>])[] = [
  ['lists/a.txt', { kind: 'path', source: 'lists/a.txt' }],
  ['"my lists/a b.txt" type=socks5', { source: 'my lists/a b.txt', type: 'socks5' }],
  ['/a type=SOCKS4', { type: 'socks4' }],
  ['/a format=csv', { format: 'csv' }],
  ['/a ping-unit=MS', { pingUnit: 'ms' }],
  ['/a map=Where=ip', { mapping: [['Where', 'ip']] }],
  [
    '/a map="IP Address=ip,4=PING" map=x=- replace',
    {
      mapping: [
        ['IP Address', 'ip'],
        ['4', 'ping'],
        ['x', '-'],
      ],
      replaces: true,
    },
  ],
  ['/a every=1s', { everyMs: SECOND_MS }],
  ['/a every=7d', { everyMs: 7 * 24 * HOUR_MS }],
  ['/a replace', { replaces: true }],
  ['/a check', { replaces: false, isForChecker: true }],
  ['http://a/b headers=/etc/h', { headersFile: '/etc/h' }],
  ['http://a/b headers="/etc/my h" replace', { headersFile: '/etc/my h', replaces: true }],
  ['http://a/b?x=1&type=2', { kind: 'url', source: 'http://a/b?x=1&type=2' }],
  ['HTTPS://A/b', { kind: 'url' }],
]

describe('a line of a feed', () => {
  test('has a source, and default options unless they are given', () => {
    expect(one('https://example.com/list.csv')).toEqual({
      id: expect.stringMatching(/^[0-9a-f]{32}$/),
      source: 'https://example.com/list.csv',
      shown: 'https://example.com/list.csv',
      kind: 'url',
      type: undefined,
      format: 'auto',
      pingUnit: undefined,
      mapping: [],
      everyMs: EVERY_MS,
      replaces: false,
      isForChecker: false,
      headersFile: null,
      from: 'option',
      isPaused: false,
    })
  })

  test.each(OPTIONS)('%s', (line, options) => {
    expect(one(line)).toMatchObject(options)
  })
})

describe('a wrong line of a feed', () => {
  const WRONG: readonly (readonly [line: string, says: string])[] = [
    ['type=http', '--feed: begins with an option; a feed is SOURCE [type=socks5]'],
    ['/a type=ftp', '--feed: type must be http, https, socks4, socks5'],
    ['/a format=xml', '--feed: format must be txt, csv, json, ndjson'],
    ['/a ping-unit=min', '--feed: ping-unit must be s, ms'],
    ['/a map=', '--feed: map must be COLUMN=FIELD, or COLUMN=- to ignore it'],
    ['/a map=Where', '--feed: map must be COLUMN=FIELD, or COLUMN=- to ignore it'],
    ['/a every=0s', '--feed: every must be a duration from 1s to 7d, such as 60s'],
    ['/a every=999ms', '--feed: every must be a duration from 1s to 7d, such as 60s'],
    ['/a every=8d', '--feed: every must be a duration from 1s to 7d, such as 60s'],
    ['/a every=1', '--feed: every must be a duration from 1s to 7d, such as 60s'],
    ['/a evry=5s', "--feed: unknown option 'evry'; a feed is SOURCE"],
    ['/a toString=5s', "--feed: unknown option 'toString'; a feed is SOURCE"],
    ['http://a/ headers=', '--feed: headers must be the path of a file'],
    ['/a replace check', '--feed: replace and check exclude each other'],
    ['/a headers=/h', '--feed: headers= is for URLs; a path has no headers'],
    ['ftp://u:secret@h/x', '--feed: ftp://***@h/x must be an http:// or https:// URL'],
    ['"/a', '--feed: has a double quote that is not closed'],
    ['"/a\n"/b', '--feed: has a double quote that is not closed'],
    ['/a "/b c" "/d', '--feed: has a double quote that is not closed'],
    ['http://', '--feed: http://*** must be an http:// or https:// URL'],
  ]
  test.each(WRONG)('is refused: %s', (line, says) => {
    const thrown = thrownBy(() => parse(line))
    expect(thrown.message).toStartWith(says)
    expect(thrown.exitCode).toBe(2)
  })
})

function thrownBy(work: () => unknown): CommandError {
  try {
    work()
  } catch (error) {
    if (error instanceof CommandError) return error
  }
  throw new Error('threw no CommandError')
}

test.each([
  ['give --ping-unit ms', "give ping-unit=ms in the feed's line"],
  ['(or give --type)', "(or give type= in the feed's line)"],
  ['with --map COLUMN=-, where', "with map=COLUMN=- in the feed's line, where"],
  ["--map: no column is called 'a'", "map= in the feed's line: no column is called 'a'"],
  ['would remove (--allow-empty)', 'would remove (--allow-empty)'],
])('the advice “%s” of an import is “%s” for a feed', (said, shown) =>
  expect(inFeedLine(said)).toBe(shown),
)

describe('a feeds file', () => {
  test('has one feed a line, comments and empty lines', () => {
    const text = '# all\n\nhttp://a/x#part type=http # ours\r\n/b every=5s\n'
    const feeds = parseFeedsFile(text, EVERY_MS, 'feeds.conf')
    expect(feeds.map(({ source }) => source)).toEqual(['http://a/x#part', '/b'])
  })
  test('has # in quotes, and quotes in comments', () => {
    const text = '"/lists #1/a.csv" every=5s # "ours\n/b # a " b\n# "\n'
    const feeds = parseFeedsFile(text, EVERY_MS, 'feeds.conf')
    expect(feeds.map(({ source }) => source)).toEqual(['/lists #1/a.csv', '/b'])
  })
  test.each([
    ['/a\n/b typ=http', "feeds.conf:2: unknown option 'typ'"],
    ['/a\n"100.csv\n', 'feeds.conf:2: has a double quote that is not closed'],
    ['/a /b', 'feeds.conf:1: has more than one feed; each has its own line'],
  ])('names the line that is wrong: %j', (text, says) => {
    expect(thrownBy(() => parseFeedsFile(text, EVERY_MS, 'feeds.conf')).message).toStartWith(says)
  })
})

describe('the line of a feed in the feeds file', () => {
  const readAgain = (line: string) => parseFeedsFile(line, EVERY_MS, 'feeds')

  test.each([
    ['https://u:p@example.com/list?key=x#part', { type: 'socks5', every: '5m', replace: true }],
    ['/raw.txt', { check: true }],
    ['/my lists/#1.csv', { format: 'csv', map: 'IP Address=ip,4=ping', 'ping-unit': 'ms' }],
    ['http://a/b', { headers: '/etc/my h', paused: true }],
  ])('gives back the source %s and the options that it was written from', (source, given) => {
    const [feed] = readAgain(lineOf(source, given))
    if (feed === undefined) throw new Error('no feed')
    expect(feed.source).toBe(source)
    expect(optionsOf(feed)).toMatchObject(given)
    expect(readAgain(lineOf(source, optionsOf(feed)))).toEqual([feed])
  })
  test.each([
    ['replace', {}, 'source must be an http:// or https:// URL'],
    ['', {}, 'source must be'],
    ['# /a', {}, 'source must be'],
    ['/a', { map: '1=ip" http://evil/' }, 'must not contain a double quote'],
    ['/a\n/b', {}, 'must not contain a double quote'],
  ])('is refused for %j %j', (source, options, says) => {
    expect(thrownBy(() => lineOf(source, options)).message).toContain(says)
  })
})

describe('the lines of a feeds file', () => {
  const [a, b] = parse('/a /b').map(({ id }) => id) as [string, string]
  test.each([
    ['are added at the end', '/b\n', a, '/a', '/b\n/a\n'],
    ['are changed in their place', '/a\n/b', a, '/a every=5m', '/a every=5m\n/b\n'],
    ['are removed', '/a\n/b\n', b, null, '/a\n'],
    ['that are not there are not removed', '/b\n', a, null, '/b\n'],
    ['that an operator wrote stay', '# ours\n\n/b evry=1\n/a\n', a, null, '# ours\n\n/b evry=1\n'],
  ])('%s', (_, lines, id, line, expected) => {
    expect(withLine(lines, id, line)).toBe(expected)
  })
})

describe('several feeds', () => {
  test('cannot replace the list', () => {
    expect(() => checkFeeds(parse('/a replace'), '')).not.toThrow()
    expect(thrownBy(() => checkFeeds(parse('/a replace /b'), '')).message).toBe(
      'the feed /a says replace, which removes the rows of the other 1: replace is for an only feed',
    )
  })
  test('have different sources', () => {
    expect(thrownBy(() => checkFeeds(parse('/a /b /a type=http'), '')).message).toBe(
      'the feed /a is named twice',
    )
  })
})

describe('a header file', () => {
  test('has headers, comments and empty lines', () => {
    const text = '# key\nAuthorization: Bearer pl_x: y\r\n\n X-Other:1\n'.replace('\n X', '\nX')
    expect(parseHeaders(text, 'h')).toEqual([
      ['Authorization', 'Bearer pl_x: y'],
      ['X-Other', '1'],
    ])
  })
  test.each([
    ['Bearer pl_secret', 'h:1: must be a header such as Authorization: Bearer KEY'],
    ['a: 1\nb\u0001: 2', 'h:2: must be a header such as Authorization: Bearer KEY'],
  ])('is refused for %j, without repeating it', (text, says) => {
    const { message } = thrownBy(() => parseHeaders(text, 'h'))
    expect(message).toBe(says)
  })
})

describe('secrets in URLs are masked', () => {
  const MASKED: readonly (readonly [source: string, shown: string])[] = [
    ['/var/lists/a.txt', '/var/lists/a.txt'],
    ['http://h/list.csv', 'http://h/list.csv'],
    ['http://user:secret@h:8080/list.csv', 'http://***@h:8080/list.csv'],
    ['http://token@h/', 'http://***@h/'],
    ['https://h/a?key=SECRET&type=http', 'https://h/a?key=***&type=http'],
    ['https://h/a?type=socks5&country=DE,FR', 'https://h/a?type=socks5&country=DE,FR'],
    ['https://h/a?sort_by=lastChecked&limit=500', 'https://h/a?sort_by=lastChecked&limit=500'],
    [
      'https://h/a?apiToken=a&USER=b&passwd=c&id=5',
      'https://h/a?apiToken=***&USER=***&passwd=***&id=***',
    ],
    ['https://h/a?x=8f14e45fceea167a&y=Zm9v%2FYmFy', 'https://h/a?x=***&y=***'],
    ['https://h/a?x=12345678&y=%D0%B0&z=', 'https://h/a?x=***&y=***&z=***'],
    ['https://h/a?x=averylongwordwithoutdigits', 'https://h/a?x=***'],
    ['https://h/a?SECRETSECRETSECRET1234', 'https://h/a?***=***'],
    ['https://h/a#SECRET', 'https://h/a'],
    ['https://h/lists/8f14e45fceea167a5a36dedd4bea2543/x.txt', 'https://h/lists/***/x.txt'],
    ['https://h/8f14e45fceea167a5a36dedd4bea2543.txt', 'https://h/***.txt'],
    ['https://h/key=8f14e45fceea167a5a36dedd4bea2543;v=2/x', 'https://h/key=***;v=2/x'],
    ['https://h/http_proxies_of_2026-11-27.txt', 'https://h/http_proxies_of_2026-11-27.txt'],
    ['https://h/bot123:x/monosans-proxy-list-2026', 'https://h/bot123:x/monosans-proxy-list-2026'],
    ['http://[bad/SECRET', 'http://***'],
  ]
  test.each(MASKED)('%s is shown as %s', (source, shown) => {
    expect(maskSource(source)).toBe(shown)
  })
})
