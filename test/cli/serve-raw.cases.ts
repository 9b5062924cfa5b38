/**
 * Requests no well-behaved client sends, as bytes on a connection, and the status they get.
 */

import { ASK, KEY } from '../support/fixtures.ts'
import { BINARY } from '../support/program.ts'

const CLOSE = 'Connection: close\r\n\r\n'
const get = (target: string, host = 'Host: a\r\n'): string =>
  `GET ${target} HTTP/1.1\r\n${host}${CLOSE}`

/** The statuses allowed: several where Bun decides, 0 where it hangs up without an answer. */
type RawRequest = readonly [name: string, bytes: string, status: readonly number[]]

export const RAW_REQUESTS: readonly RawRequest[] = [
  ['a Host of one character', get(ASK), [200]],
  ['an empty Host', get(ASK, 'Host:\r\n'), [200, 400]],
  ['a Host with a query', get(ASK, 'Host: x?key=other\r\n'), [200, 400]],
  ['a Host that is garbage', get(ASK, 'Host: a b/c?d#e\r\n'), [200, 400]],
  ['two Hosts', get(ASK, 'Host: a\r\nHost: b\r\n'), [200, 400]],
  ['no Host in HTTP/1.0', `GET ${ASK} HTTP/1.0\r\n\r\n`, [200]],
  ['no Host in HTTP/1.1', get(ASK, ''), [400]],
  ['a slash and a second ? in the key', get('/api?key=a/b?c=1'), [403]],
  ['the absolute form', get(`http://example.org${ASK}`, 'Host: example.org\r\n'), [200]],
  ['the absolute form, a short host', get(`http://a${ASK}`), [200]],
  ['a path without its slash', get(ASK.slice(1)), [400]],
  ['a path of dots', get(`/x/../api?key=${KEY}`), [200, 404]],
  ['two slashes', get(`/${ASK}`), [404]],
  ['no path', get('?'), [400]],
  ['a trailing slash', get(`/api/?key=${KEY}`), [200]],
  ['percent garbage for a key', get('/api?key=%zz'), [400]],
  ['bytes that are not UTF-8 for a key', get('/api?key=%ff%fe'), [400]],
  ['percent garbage for a value', get(`${ASK}&city=%E0%A4%A`), [400]],
  ['percent garbage for a name', get(`${ASK}&%zz=1`), [400]],
  ['percent garbage for a path', get('/%zz/%ff'), [404]],
  ['%00 for a value', get(`${ASK}&city=%00`), [400]],
  ['%00 for a key', get('/api?key=%00'), [403]],
  ['%00 in the path', get(`/api%00?key=${KEY}`), [404]],
  ['names every object has', get(`${ASK}&__proto__=1&constructor=1&toString=1`), [400]],
  ['a fragment', get(`${ASK}#top`), [200, 400, 403]],
  // Only the binary holds the limit of 8 KiB; Bun's own is 16.
  ['a URL of 9,000 bytes', get(`/api?key=${'k'.repeat(9000)}`), BINARY ? [431] : [403, 431]],
  ['a URL of 40,000 bytes', get(`/api?key=${'k'.repeat(40_000)}`), [431]],
  ['a header of 40,000 bytes', get(ASK, `Host: a\r\nX: ${'x'.repeat(40_000)}\r\n`), [431]],
  ['control characters for a header', get(ASK, 'Host: a\r\n\u0001\u0002\r\n'), [400]],
  ['a header without a colon', get(ASK, 'Host: a\r\nno colon here\r\n'), [400]],
  ['garbage for addresses', get(ASK, 'Host: a\r\nX-Forwarded-For: ,;\u00ff,::%1\r\n'), [200]],
  ['garbage for a bearer', get('/api', 'Host: a\r\nAuthorization: Bearer \u00ff\u00fe\r\n'), [403]],
  ['garbage for encodings', get(ASK, 'Host: a\r\nAccept-Encoding: gzip;q=x,,;=\r\n'), [200]],
  ['a body with GET', `GET ${ASK} HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n${CLOSE}{}`, [200]],
  [
    'broken JSON with POST',
    `POST ${ASK} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 2\r\n${CLOSE}{a`,
    [405],
  ],
  [
    'a broken chunk',
    `POST ${ASK} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n${CLOSE}zz\r\n`,
    [400, 405],
  ],
  ['OPTIONS for everything', `OPTIONS * HTTP/1.1\r\nHost: a\r\n${CLOSE}`, [400, 404]],
  ['CONNECT', `CONNECT example.org:443 HTTP/1.1\r\nHost: example.org\r\n${CLOSE}`, [400, 404]],
  ['a method there is not', `FETCH ${ASK} HTTP/1.1\r\nHost: a\r\n${CLOSE}`, [0, 400, 405]],
  ['a greeting of TLS', '\u0016\u0003\u0001\u0002\u0000\u0001\u0000\r\n\r\n', [400]],
]

/** Requests for files of the page whose Host is none that a URL can have, each with its status. */
export const ODD_HOSTS = [
  ['a bracket', get('/', 'Host: [\r\n'), 200],
  ['a port of letters', get('/', 'Host: x:y\r\n'), 200],
  ['empty', get('/', 'Host:\r\n'), 200],
  ['missing, as HTTP/1.0 allows', 'GET / HTTP/1.0\r\n\r\n', 200],
  ['a percent sign, at a path without a file', get('/-/x', 'Host: %\r\n'), 404],
] as const
