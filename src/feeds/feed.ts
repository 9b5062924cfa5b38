/** A feed (contract G1): parses and writes its line, parses header files, masks the secrets of a source. Pure. */
import { FORMATS, type Format } from '../import/formats.ts'
import { checkMapping } from '../import/names.ts'
import { CommandError } from '../lib/errors.ts'
import { parsePairs } from '../lib/query-string.ts'
import { DAY_MS, formatDuration, parseDurationWithin, SECOND_MS } from '../lib/time.ts'
import { type ProxyType, TYPES } from '../proxies/proxy.ts'

export type Feed = {
  id: string
  /** A URL, or the path of a file or directory, as given. May hold secrets. */
  source: string
  shown: string
  kind: 'url' | 'path'
  type: ProxyType | undefined
  format: Format | 'auto'
  pingUnit: (typeof PING_UNITS)[number] | undefined
  /** A list of pairs instead of a `Map`, because a feed is sent to a child process as JSON. */
  mapping: readonly (readonly [column: string, field: string])[]
  everyMs: number
  /** Whether an import removes rows that are not in the feed. */
  replaces: boolean
  /** Whether `proxylist check` fetches it, and adds the proxies that work. */
  isForChecker: boolean
  headersFile: string | null
  /** It is named by `--feed`, or in the feeds file, which the console edits. */
  from: 'option' | 'file'
  isPaused: boolean
}

const FEED_LINE =
  'SOURCE [type=socks5] [format=csv] [ping-unit=ms] [map=COLUMN=FIELD] [every=60s] [replace] ' +
  '[check] [headers=FILE], SOURCE a URL or a path'

const PING_UNITS = ['s', 'ms'] as const

const wrong = (where: string, what: string): never => {
  throw new CommandError(`${where}: ${what}`, 2)
}

/** Words separated by white space; one in double quotes may hold white space. */
const wordsOf = (line: string): string[] =>
  [...line.matchAll(/([^\s"]*)"([^"]*)"|(\S+)/g)].map(
    ([, start = '', quoted = '', word]) => word ?? start + quoted,
  )

const isUrl = (word: string): boolean => /^[a-z][a-z\d+.-]*:\/\//i.test(word)
const isOption = (word: string): boolean => Object.hasOwn(WORDS, word) || /^[a-z_-]+=/i.test(word)

/** @throws CommandError unless `source` is a path or an `http(s)://` URL. */
function kindOf(source: string, where: string): Feed['kind'] {
  if (!isUrl(source)) return 'path'
  const url = URL.parse(source)
  const isHttp = url?.protocol === 'http:' || url?.protocol === 'https:'
  return isHttp ? 'url' : wrong(where, `${maskSource(source)} must be an http:// or https:// URL`)
}

type Options = Omit<Feed, 'id' | 'source' | 'shown' | 'kind' | 'from'>

const WORDS: { [word: string]: Partial<Options> } = {
  replace: { replaces: true },
  check: { isForChecker: true },
  paused: { isPaused: true },
}

type ParseOption = (value: string) => Partial<Options> | string

/** Parses a value that must be one of `accepted`, in upper or lower case. */
const oneOf =
  <T extends string>(
    accepted: readonly T[],
    toOptions: (value: T) => Partial<Options>,
  ): ParseOption =>
  value => {
    const found = accepted.find(each => each === value.toLowerCase())
    return found ? toOptions(found) : accepted.join(', ')
  }

/** Parsers of options with a value. Each returns options, or, for a wrong value, the values that it accepts. */
const OPTIONS: { [name: string]: ParseOption } = {
  type: oneOf(TYPES, type => ({ type })),
  format: oneOf(FORMATS, format => ({ format })),
  'ping-unit': oneOf(PING_UNITS, pingUnit => ({ pingUnit })),
  map(value) {
    const mapping = value === '' ? null : parsePairs(value)
    return mapping ? { mapping: [...mapping] } : 'COLUMN=FIELD, or COLUMN=- to ignore it'
  },
  every(value) {
    const everyMs = parseDurationWithin(value, SECOND_MS, 7 * DAY_MS)
    return everyMs === null ? 'a duration from 1s to 7d, such as 60s' : { everyMs }
  },
  headers: value => (value === '' ? 'the path of a file' : { headersFile: value }),
}

function readOption(word: string, where: string): Partial<Options> {
  if (Object.hasOwn(WORDS, word)) return WORDS[word] ?? {}
  const [name = '', ...rest] = word.split('=')
  const read = Object.hasOwn(OPTIONS, name) ? OPTIONS[name] : undefined
  if (!read) return wrong(where, `unknown option '${name}'; a feed is ${FEED_LINE}`)
  const option = read(rest.join('='))
  return typeof option === 'string' ? wrong(where, `${name} must be ${option}`) : option
}

function toFeed(
  words: readonly string[],
  everyMs: number,
  where: string,
  from: Feed['from'],
): Feed {
  const [source = '', ...more] = words
  const options = more.map(word => readOption(word, where))
  const feed: Feed = {
    id: new Bun.CryptoHasher('sha256').update(source).digest('hex').slice(0, 32),
    source,
    shown: maskSource(source),
    kind: kindOf(source, where),
    type: undefined,
    format: 'auto',
    pingUnit: undefined,
    everyMs,
    replaces: false,
    isForChecker: false,
    headersFile: null,
    from,
    isPaused: false,
    ...Object.assign({}, ...options),
    mapping: [...new Map(options.flatMap(({ mapping = [] }) => mapping))],
  }
  if (feed.headersFile !== null && feed.kind === 'path') {
    wrong(where, 'headers= is for URLs; a path has no headers')
  }
  if (feed.replaces && feed.isForChecker) {
    wrong(where, 'replace and check exclude each other')
  }
  return feed
}

/** The feeds in the text of `--feed`. An option belongs to the source before it. @throws CommandError (usage) */
export function parseFeeds(
  text: string,
  everyMs: number,
  where: string,
  from: Feed['from'] = 'option',
): Feed[] {
  const hasOpenQuote = (line: string): boolean => line.split('"').length % 2 === 0
  if (text.split('\n').some(hasOpenQuote)) wrong(where, 'has a double quote that is not closed')
  const groups: string[][] = []
  for (const word of wordsOf(text)) {
    if (!isOption(word)) groups.push([word])
    else (groups.at(-1) ?? wrong(where, `begins with an option; a feed is ${FEED_LINE}`)).push(word)
  }
  return groups.map(words => toFeed(words, everyMs, where, from))
}

/** The feeds of a feeds file, one a line. `#` starts a comment at the start of a line or after white space. */
export function parseFeedsFile(text: string, everyMs: number, file: string): Feed[] {
  return text.split(/\r?\n/).flatMap((line, i) => {
    const where = `${file}:${i + 1}`
    // `#` in double quotes starts no comment.
    const text = line.replace(/("[^"]*")|(?:^|\s)#.*$/g, (_, quoted = '') => quoted)
    const feeds = parseFeeds(text, everyMs, where, 'file')
    return feeds.length <= 1 ? feeds : wrong(where, 'has more than one feed; each has its own line')
  })
}

/** Options by their names in a line. `true` is an option without a value; `''` and `false` are left out. */
export type FeedOptions = { readonly [name: string]: string | boolean }

export const optionsOf = (feed: Feed): FeedOptions => ({
  format: feed.format === 'auto' ? '' : feed.format,
  type: feed.type ?? '',
  'ping-unit': feed.pingUnit ?? '',
  map: feed.mapping.map(pair => pair.join('=')).join(','),
  replace: feed.replaces,
  check: feed.isForChecker,
  every: formatDuration(feed.everyMs),
  headers: feed.headersFile ?? '',
  paused: feed.isPaused,
})

const quoted = (text: string): string => (/[\s#]/.test(text) ? `"${text}"` : text)

const textOf = (options: FeedOptions): string =>
  Object.entries(options)
    .filter(([, value]) => value !== '' && value !== false)
    .map(([name, value]) => (value === true ? name : `${name}=${quoted(`${value}`)}`))
    .join(' ')

/** A line of the feeds file. @throws CommandError (usage) */
export function lineOf(source: string, options: FeedOptions): string {
  const line = `${quoted(source)} ${textOf(options)}`.trim()
  if ([source, ...Object.entries(options).flat()].some(text => /["\p{Cc}]/u.test(`${text}`))) {
    throw new CommandError('a feed must not contain a double quote or a line break', 2)
  }
  if (source === '' || isOption(source) || source.startsWith('#')) {
    throw new CommandError(
      'source must be an http:// or https:// URL, or a path such as ./lists',
      2,
    )
  }
  return line
}

/** The options that change the result of an import, as text. */
export function importOptionsOf(feed: Feed): string {
  const { every, headers, paused, ...options } = optionsOf(feed)
  return textOf(options)
}

/** A message of an import. Names options of the feed's line instead of flags of the command line. */
export const inFeedLine = (sentence: string): string =>
  sentence.replace(
    /--(type|ping-unit|map)(?: ([A-Z]+=[\w-]+|\w+))?/g,
    (_, name: string, value = '') => `${name}=${value} in the feed's line`,
  )

/** @throws CommandError (usage) if feeds exclude each other, or one maps a column to an unknown field. */
export function checkFeeds(feeds: readonly Feed[], provider: string): void {
  for (const { shown, mapping } of feeds) {
    checkMapping(new Map(mapping), provider, `feed ${shown}: map`)
  }
  const twice = feeds.find((feed, i) => feeds.findIndex(({ id }) => id === feed.id) !== i)
  if (twice) throw new CommandError(`the feed ${twice.shown} is named twice`, 2)
  const replacing = feeds.find(({ replaces }) => replaces)
  if (replacing === undefined || feeds.length === 1) return
  throw new CommandError(
    `the feed ${replacing.shown} says replace, which removes the rows of the other ` +
      `${feeds.length - 1}: replace is for an only feed`,
    2,
  )
}

/** The headers of a header file: one `Name: value` a line; `#` at the start of a line makes it a comment. */
export function parseHeaders(text: string, file: string): [name: string, value: string][] {
  return text.split(/\r?\n/).flatMap((line, i): [string, string][] => {
    if (/^\s*(?:#|$)/.test(line)) return []
    // Messages do not quote the line: it may hold a secret.
    const [, name = '', value = ''] =
      /^([!#$%&'*+.^`|~\w-]+):[ \t]*([\t\x20-\x7e\x80-\xff]*?)[ \t]*$/.exec(line) ?? []
    if (name === '') wrong(`${file}:${i + 1}`, 'must be a header such as Authorization: Bearer KEY')
    return [[name, value]]
  })
}

const HIDDEN = '***'

/** A part of a path that may be a token: long, with letters and digits. */
const TOKEN = /^(?=.*\d)(?=.*[a-z])[\w-]{20,}$/i
/** A name of a list, such as `http-proxies-2026-11-27`: words and dates joined by dashes. */
const NAME = /^(?:[a-z]{1,15}|\d{1,8})(?:[-_](?:[a-z]{1,15}\d{0,2}|\d{1,8}))*$/i

const maskTokens = (text: string): string =>
  text.replace(/[\w-]{20,}/g, part => (TOKEN.test(part) && !NAME.test(part) ? HIDDEN : part))

/** Names of parameters that may hold secrets of any form. */
const SECRET_NAME =
  /key|token|secret|pass|pwd|auth|sig|user|login|mail|session|cred|account|licen[cs]e|hash|jwt|bearer|order|^(?:id|uid|sid|k|u|p|pw|pin|api)$/i
/** Values that are not secret: short words and numbers, such as `socks5`, `de,fr`, `last_checked` and `3600`. */
const CHOICE =
  /^(?=.{1,40}$)(?:[a-z]{1,15}\d{0,2}|\d{1,6})(?:[-_.,](?:[a-z]{1,15}\d{0,2}|\d{1,6}))*$/i

/** A parameter of a query, without its value if that may be a secret. */
const maskParameter = ([name, value]: [name: string, value: string]): string => {
  const isShown = CHOICE.test(value) && !SECRET_NAME.test(name)
  return `${encodeURIComponent(maskTokens(name))}=${isShown ? value : HIDDEN}`
}

/** Hides user, password, fragment, and possible secrets in the path and query of a URL. Does not change a path. */
export function maskSource(source: string): string {
  if (!isUrl(source)) return source
  const url = URL.parse(source)
  if (url === null) return source.replace(/\/\/.*/s, `//${HIDDEN}`)
  const user = url.username || url.password ? `${HIDDEN}@` : ''
  const path = maskTokens(url.pathname)
  const query = [...url.searchParams].map(maskParameter).join('&')
  return `${url.protocol}//${user}${url.host}${path}${query && `?${query}`}`
}
