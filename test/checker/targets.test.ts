/** Targets of services as an operator gives them, and what counts as an answer (contract H1 and H3). */
import { describe, expect, test } from 'bun:test'
import {
  createBannerReader,
  pageMatches,
  readSmtpTarget,
  readTargets,
} from '../../src/checker/targets.ts'
import { Expected } from '../../src/config/parsers.ts'

const PROVIDER = 'my shop'
const page = { kind: 'page', status: 200, match: '', not: '' } as const

describe('--target', () => {
  test.each([
    [
      'telegram=https://telegram.example/',
      { service: 'telegram', url: 'https://telegram.example/' },
    ],
    [
      'Google=http://192.0.2.1:8080/a?b=c',
      { service: 'google', url: 'http://192.0.2.1:8080/a?b=c' },
    ],
    [
      'my_shop=https://a.example,status=204',
      { service: 'provider', url: 'https://a.example/', status: 204 },
    ],
    [
      'avito=https://a.example/?x=1,2,match=a,b=c',
      { service: 'avito', url: 'https://a.example/?x=1,2', match: 'a,b=c' },
    ],
    [
      'avito=https://a.example,status=302,match=y,not=x',
      { service: 'avito', url: 'https://a.example/', status: 302, match: 'y', not: 'x' },
    ],
  ])('%s', (given, { url, ...found }) => {
    const { hostname: host, port, protocol } = new URL(url)
    const at = { host, port: Number(port) || (protocol === 'https:' ? 443 : 80) }
    expect(readTargets(given, PROVIDER)).toEqual([
      { ...page, ...found, ...at, url: new URL(url) } as never,
    ])
  })

  test('takes several, one a line', () => {
    const [one, other] = ['telegram=http://a.example', 'avito=http://b.example']
    expect(readTargets(`${one}\n${other}\n`, PROVIDER).map(({ service }) => service)).toEqual([
      'telegram',
      'avito',
    ])
    expect(readTargets('', PROVIDER)).toEqual([])
  })

  const names = 'one of telegram, avito, google, my shop before the ='
  test.each([
    ['https://a.example', names],
    ['smtp=https://a.example', names],
    ['provider=https://a.example', names],
    ['telegram=', 'NAME=URL,'],
    ['telegram=ftp://a.example', 'NAME=URL,'],
    ['telegram=a.example', 'NAME=URL,'],
    ['telegram=https://user:secret@a.example', 'NAME=URL,'],
    ['telegram=https://a.example/#x', 'NAME=URL,'],
    ['telegram=https://192.0.2.1/', 'a name in a URL of https'],
    ['telegram=https://[2001:db8::1]/', 'a name or an IPv4 address in a URL'],
    ['telegram=http://[2001:db8::1]/', 'a name or an IPv4 address in a URL'],
    ['telegram=https://a.example,status=99', 'in this order'],
    ['telegram=https://a.example,status=ok', 'in this order'],
    ['telegram=https://a.example,match=', 'in this order'],
    ['telegram=https://a.example,statuss=404', 'in this order'],
    ['telegram=https://a.example, match=a', 'in this order'],
    ['telegram=https://a.example,Match=a,status=404', 'in this order'],
    ['telegram=http://a.example\ntelegram=http://b.example', 'one target for each service'],
  ])('refuses %s', (given, says) => {
    expect(() => readTargets(given, PROVIDER)).toThrow(Expected)
    expect(() => readTargets(given, PROVIDER)).toThrow(says)
  })
})

describe('--smtp-target', () => {
  test('HOST:25', () => {
    const host = 'mail.example'
    expect(readSmtpTarget(`${host}:25`)).toEqual({ kind: 'mail', service: 'smtp', host, port: 25 })
  })
  test.each([
    '',
    'mail.example',
    'mail.example:0',
    'mail.example:70000',
    ':25',
    'a b:25',
    '[::1]:25',
    'smtp://a:25',
  ])('refuses %j', given => expect(() => readSmtpTarget(given)).toThrow(Expected))
})

test.each([
  [{}, 200, '', true],
  [{}, 404, '', false],
  [{ status: 404 }, 404, '', true],
  [{ match: 'Войти' }, 200, 'a Войти b', true],
  [{ match: 'Войти' }, 200, 'войти', false],
  [{ not: 'captcha' }, 200, 'x', true],
  [{ not: 'captcha' }, 200, 'a captcha', false],
  [{ match: 'a', not: 'b' }, 200, 'a b', false],
])('a page for %j with %d and %j works: %p', (expected, status, body, works) => {
  const target = {
    ...page,
    service: 'google',
    ...{ url: new URL('http://a.example'), host: 'a.example', port: 80 },
    ...expected,
  } as const
  expect(pageMatches(target, { status, head: '', body: Buffer.from(body) })).toBe(works)
})

describe('a mail server', () => {
  const kindOf = (...parts: string[]): string => {
    const { push } = createBannerReader()
    for (const part of parts) {
      const parsed = push(Buffer.from(part))
      if (parsed.kind !== 'more') return parsed.kind === 'failed' ? parsed.reason : parsed.kind
    }
    return 'more'
  }
  test.each([
    [['220 ready\r\n'], 'done'],
    [['2', '20', ' ready', '\n'], 'done'],
    [['220-a\r\n220-b\r\n220 c\r\n'], 'done'],
    [['220\r\n'], 'done'],
    [['220 ready'], 'more'],
    [['220-a\r\n'], 'more'],
    [['2'], 'more'],
    [['554 no\r\n'], 'proxy error'],
    [['HTTP/1.1 400\r\n'], 'proxy error'],
    [['220-a\r\n'.repeat(999)], 'too long'],
    [['220 a'.padEnd(9999, 'a')], 'too long'],
  ])('that says %j gives %s', (parts, kind) => expect(kindOf(...parts)).toBe(kind))
})
