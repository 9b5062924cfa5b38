/**
 * The fuzzer's values for each parameter: accepted ones, narrowly refused ones, and hostile
 * ones. Every string holds bytes (Latin-1).
 */

const bytes = (text: string): string => Buffer.from(text).toString('latin1')
/** Values without blanks, as a text. */
export const words = (text: string): string[] => text.trim().split(/\s+/)
type Values = { readonly [name: string]: readonly string[] }

const INTEGERS = ['0', '1', '30', '999', '000123', '999999999999999', '%30', '']
const MODES = ['include', 'except', '%65xcept']
const FLAGS = ['1', '0', '%31', '']

/** Accepted values of the filters, of TXT's own parameter, and of those of records and of JSON. */
export const GOOD_FILTERS: Values = {
  type: ['http', 'socks5', 'HTTP,Socks4', 'http%2Chttps', ',,http,', '%73ocks5', '%20http,+https'],
  anon: ['elite', 'anonymous,elite', 'transparent,,', 'ELITE'],
  ping: [...INTEGERS, '532'],
  speed: INTEGERS,
  time: ['600', '900', '1800', '000600', '3600', '7200', '', '700', '800', '86400'],
  works: ['0', '100', '090', '7', ''],
  country: ['de', 'DE,fr', 'xx', 'de%20,+fr', 'us,US,uS'],
  city: ['Berlin', bytes('Берлин'), encodeURIComponent('Берлин'), 'New+York', '%F0%9F%98%80', "O'"],
  port: ['1', '65535', '08080', '1080', ''],
  ip: ['203.0.113.1:1080', '0.0.0.0:1', '255.255.255.255:65535', '203.0.113.1%3A1080', ''],
  service: words('smtp the_service the+service google,TELEGRAM avito,avito The%20Service'),
  sort: ['checked', 'ping', 'speed', 'works', 'random', '%72andom', ''],
  count: ['', '0', '1', '3', '30', '999999999999999'],
  lang: ['ru', 'en', ''],
}
export const GOOD_MODES = MODES
export const GOOD_TXT: Values = { type_prefix: FLAGS }
export const GOOD_RECORDS: Values = {
  fields: ['ip', 'ip,port', 'IP,type,works', 'the_service,smtp', 'timecheck,ping,speed,city', ','],
  split_ip: FLAGS,
}
export const GOOD_JSON: Values = {
  ...GOOD_RECORDS,
  format: ['array', 'object', ''],
  wrap: FLAGS,
  pretty: FLAGS,
}

/** Percent sequences that are not UTF-8. */
export const BROKEN = words('% %z %zz %E0%A4%A %C0%80 %ED%A0%80 %FF%FE %F4%90%80%80')

const NO_INTEGERS = [
  ...words(`
    -1 -0 %2B5 %205 5%20 5.0 1e3 0x10 0b1 5_0 1,000 %D9%A5 9999999999999999
    99999999999999999999999 NaN Infinity 5%0a 5%00 5; 1/1 null true [] 5%EF%BB%BF`),
  "1'%20or%201=1",
  bytes('５'),
  ...BROKEN,
]
const NO_LIST = ['htp', 'http;socks5', 'http|socks5', '[http]', 'http%00', 'all', '*', 'http%252C']
const NO_WORD = ['RU', 'de', 'ru,en', 'ru%00', '2', 'yes', 'null', '%01', ...BROKEN]

/** Refused values. */
export const BAD: Values = {
  type: [...NO_LIST, 'toString', ...BROKEN],
  anon: [...NO_LIST, 'eliteelite', ...BROKEN],
  ping: NO_INTEGERS,
  speed: NO_INTEGERS,
  time: NO_INTEGERS,
  works: [...NO_INTEGERS, '101', '999'],
  country: ['d', 'deu', 'd1', '%D0%B4%D0%B5', 'de;fr', 'd%00', '__', ...BROKEN],
  country_mode: [...NO_WORD, 'exclude', 'include,except'],
  cm: [...NO_WORD, 'Except'],
  city: ['%00', 'a%0Ab', '%7F', '%1b[31m', 'x'.repeat(201), 'Berlin,a%0d%0ab', ...BROKEN],
  port: [...NO_INTEGERS, '0', '65536'],
  ip: [
    ...words(`
    1.2.3.4 1.2.3.4:0 256.1.1.1:80 1.2.3:80 %5B::1%5D:80 1.2.3.4:65536 1.2.3.4:080 01.2.3.4:80`),
    ...BROKEN,
  ],
  service: [...NO_LIST, 'the', 'the__service', ...BROKEN],
  sort: [...NO_WORD, 'Ping', 'ping,speed', '-ping', 'toString'],
  count: NO_INTEGERS,
  lang: NO_WORD,
  get: [...NO_WORD, 'xml', 'TXT', 'json.', 'json.file.gz', 'jsonp', 'CSV', 'csv.gz'],
  type_prefix: [...NO_WORD, '10'],
  fields: ['ip_', 'password', 'ip;port', '*', 'key', ...BROKEN],
  split_ip: NO_WORD,
  format: [...NO_WORD, 'Object', 'map'],
  wrap: NO_WORD,
  pretty: NO_WORD,
}

/** Names the service does not know. */
export const STRANGE_NAMES = [
  ...words(`
    contry Type typ kee limit offset token api_key utm_source callback __proto__ constructor
    toString hasOwnProperty __proto__[x] prototype type[] type.x type%00 %00 %20 %20type type%20
    %3Cscript%3E %ff % %D0%B4 city%0d%0aSet-Cookie:x %22 { $where ..%2f..`),
  ...["'", '\\'],
  'x'.repeat(300),
]

/** Hostile values, for any place. */
export const HOSTILE = [
  ...words(`
    %00 %0d%0aX:1 %1b %7f %u0041 %25%25 %2500 %EF%BF%BF %E2%80%AE ?a=b #frag a;b ; = ==
    %26key%3Dx %23 " | ^ {} <script> %3Csvg/onload=1%3E $%7B7*7%7D {{7*7}} %s%n%d
    ../../etc/passwd a%27%20union%20select * ? %3F %2F __proto__ constructor null undefined NaN
    [object%20Object] -1 1e999`),
  ...BROKEN,
  ...['\xd0', '\xff\xfe', '\xc0\x80', '\xed\xa0\x80', '\xf0\x9f'],
  bytes('Ж'),
  bytes('😀'),
  ...['\x80', '\\', '`', '\\\\a', "'%20or%201=1--", "');drop%20table%20keys;--"],
  'a'.repeat(300),
  '%41'.repeat(200),
  ','.repeat(500),
  'a,'.repeat(300),
  '1'.repeat(400),
  '('.repeat(300),
  '%F0%9F%98%80'.repeat(60),
  `${'ab,'.repeat(200)}!`,
  '9'.repeat(2000),
  'k'.repeat(7000),
  'b'.repeat(9000),
]
