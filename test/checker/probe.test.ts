/** Tests of checks through fake proxies, honest and lying (contract H2 and H3), with a judge in process. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import type { Socket } from 'node:net'
import { join } from 'node:path'
import { CONNECT_MS_MAX, FIRST_BYTE_MS_MAX } from '../../src/checker/dial.ts'
import type { CheckRequest, Measured } from '../../src/checker/ports.ts'
import { CHECK_MS_MAX, createProber, type ProberOptions } from '../../src/checker/probe.ts'
import type { Target } from '../../src/checker/targets.ts'
import { keysOf, TOKEN, writeAnswer } from '../../src/judge/protocol.ts'
import type { Address, ProxyType } from '../../src/proxies/proxy.ts'
import { typeBits } from '../../src/proxies/types.ts'
import {
  type Behaviour,
  EXIT,
  http,
  page,
  says,
  socks,
  socks5And,
  startProxy,
  US,
} from '../support/fake-proxies.ts'
import { T0 } from '../support/fixtures.ts'
import { CERTIFICATES, JUDGE_NAME, KEYS, startTestJudge } from '../support/judge.ts'
import { NOW, startProber, wordOf } from '../support/prober.ts'
import { ROOT } from '../support/program.ts'
import { cleanUp } from '../support/temporary.ts'
import { until } from '../support/until.ts'
import {
  flipsPayloads,
  HONEST,
  LEAVING,
  LIARS,
  replays,
  reverseProxy,
  swaps,
} from './proxy-behaviours.ts'

const OTHER_AUTHORITY = readFileSync(join(ROOT, 'test/fixtures/tls/other-authority.pem'), 'utf8')

let prober: Awaited<ReturnType<typeof startProber>>
beforeAll(async () => {
  prober = await startProber()
})
afterAll(cleanUp)

/** Checks a new proxy. */
const checkNew = async (behave: Behaviour, request: Partial<CheckRequest> = {}) =>
  prober.check(await startProxy(behave), request)

async function measuredOf(behave: Behaviour, request: Partial<CheckRequest> = {}) {
  const result = await checkNew(behave, request)
  if (result.kind !== 'alive') throw new Error(wordOf(result))
  return result.measured
}

/** The attempts of a check: purpose, type and result. */
const stepsOf = ({ attempts }: Awaited<ReturnType<typeof checkNew>>): string[] =>
  attempts.map(({ purpose, type, result }) => `${purpose} ${type} ${result}`)

describe('a check finds', () => {
  test.each([...HONEST, ...LIARS])('%s', async (_, behave, found) => {
    const result = await checkNew(behave(prober.world))
    expect([wordOf(result), result.attempts]).toEqual([found, expect.anything()])
    expect(prober.timers.size()).toBe(0)
  })

  test.each(LEAVING)('a proxy that hangs up %s', async (_, behave) => {
    const result = await checkNew(behave)
    // When the end crosses what we send, the system resets the connection.
    expect(wordOf(result)).toMatch(/^(?:closed|reset)$/)
    expect(prober.timers.size()).toBe(0)
  })
})

describe('a port that speaks several types', () => {
  const found = async (
    named: readonly ProxyType[],
    known: ProxyType | null = null,
    check: typeof prober.check = prober.check,
  ) => {
    const request = { known, named: typeBits(named), wantsTls: true }
    const result = await check(await startProxy(socks5And(http({ tunnel: 'forward' }))), request)
    if (result.kind !== 'alive') throw new Error(wordOf(result))
    return [result.measured.type, ...(result.measured.others ?? [])]
  }
  test('has exactly the types that sources named and that work', async () => {
    expect(await found([])).toEqual(['https'])
    expect(await found(['http', 'socks5'])).toEqual(['https', 'socks5', 'http'])
    expect(await found(['socks5', 'socks4'])).toEqual(['https', 'socks5'])
    expect(await found(['http', 'socks5'], 'socks5')).toEqual(['socks5', 'http'])
    expect(await found(['https', 'socks5'], 'socks5')).toEqual(['socks5', 'https'])
  })
  test('loses no named type by a timeout, after which it tries no more of them', async () => {
    const named = typeBits(['http', 'socks4', 'socks5'])
    const asked = Promise.withResolvers<void>()
    const silent = socks5And(http(), () => asked.resolve())
    const checking = checkNew(silent, { known: 'http', named, wantsSpeed: true })
    await asked.promise // the attempt before has ended: only the one by SOCKS5 waits for an answer
    prober.timers.pass(FIRST_BYTE_MS_MAX)
    expect(await checking).toMatchObject({
      measured: { type: 'http', undecided: ['socks5', 'socks4'] },
    })
    expect(stepsOf(await checking)).toEqual([
      ...['judge http ok', 'judge socks5 no answer', 'speed http ok', 'speed http ok'],
    ])
  })
})

describe('a check tries', () => {
  const tunnels = http({ tunnel: 'forward' })
  const refusesAll = says(Uint8Array.from([5, 255]))
  const rows: [string, Behaviour, CheckRequest['known'], steps: string][] = [
    ['HTTP first', http(), null, 'judge http ok, TLS https not a proxy'],
    ['CONNECT every time for https', tunnels, 'https', 'judge http ok, TLS https ok'],
    ['no CONNECT for known http', tunnels, 'http', 'judge http ok'],
    ['socks5 after a closed GET', socks([4, 5]), null, 'judge http closed, judge socks5 ok'],
    ['socks4 last', socks([4]), null, 'judge http closed, judge socks5 closed, judge socks4 ok'],
    ['the known type first', socks([4, 5]), 'socks4', 'judge socks4 ok'],
    [
      ...(['other types after the known one fails', socks([5]), 'socks4'] as const),
      'judge socks4 closed, judge http closed, judge socks5 ok',
    ],
    [
      ...(['no more SOCKS after an answer of HTTP', http(), 'socks5'] as const),
      'judge socks5 not a proxy, judge http ok, TLS https not a proxy',
    ],
    [
      ...(['no more types after an answer of SOCKS', refusesAll, null] as const),
      'judge http not a proxy, judge socks5 credentials',
    ],
    ['nothing more after any other answer', says('SSH-2.0-x\r\n'), null, 'judge http not a proxy'],
    [
      ...(['CONNECT too for https that is silent', socks([]), 'https'] as const),
      'judge http closed, judge socks5 closed, judge socks4 closed, TLS https closed',
    ],
  ]
  test.each(rows)('%s', async (_, behave, known, steps) => {
    const result = await checkNew(behave, { known })
    expect(stepsOf(result).join(', ').replaceAll('reset', 'closed')).toBe(steps)
  })
})

describe('a check measures', () => {
  const measured: [string, Behaviour, Partial<CheckRequest>, Partial<Measured>][] = [
    ['the exit of http', http(), {}, { ipOut: EXIT, hasTls: false }],
    [
      'the exit of plain HTTP when CONNECT works too',
      http({ tunnel: 'forward', tunnelExit: '127.5.0.7' }),
      {},
      { ipOut: EXIT, hasTls: true },
    ],
    [
      'no exit when only CONNECT works',
      http({ plain: page(405), tunnel: 'forward' }),
      {},
      { ipOut: '', hasTls: true },
    ],
    ['the exit of socks', socks([5]), {}, { ipOut: EXIT }],
    [
      'TLS behind socks, on request',
      socks([5]),
      { wantsTls: true },
      { type: 'socks5', hasTls: true },
    ],
    [
      'no TLS behind socks',
      socks([5], { denies: () => prober.judge.tlsPort }),
      { wantsTls: true },
      { type: 'socks5', hasTls: false },
    ],
    [
      'CONNECT of http again, on request',
      http({ tunnel: 'forward' }),
      { known: 'http', wantsTls: true },
      { type: 'https' },
    ],
  ]
  test.each(measured)('%s', async (_, behave, request, found) => {
    expect(await measuredOf(behave, request)).toMatchObject(found)
  })

  test('intercepted TLS behind socks, as a failure, only with a TLS request', async () => {
    const behave = socks([5], { middle: CERTIFICATES.selfSigned })
    expect(wordOf(await checkNew(behave, { wantsTls: true }))).toBe('intercepted')
    expect(wordOf(await checkNew(behave))).toBe('socks5 elite')
  })
})

describe('speed', () => {
  /** Measures a proxy that delays each answer and its second half by `stepMs`. */
  async function speedOf(stepMs: number) {
    let nowMs = 0
    const { timers, check } = await startProber({ elapsedMs: () => nowMs })
    const hasFirstHalf = () => timers.has(CHECK_MS_MAX - nowMs) // only the deadline is left
    const change = async (answer: Buffer, client: Socket) => {
      nowMs += stepMs
      client.write(answer.subarray(0, answer.length / 2))
      await until(hasFirstHalf)
      nowMs += stepMs
      return answer.subarray(answer.length / 2)
    }
    const result = await check(await startProxy(http({ change })), {
      ...{ known: 'http', wantsSpeed: true },
    })
    const { speed, pingMs } = result.kind === 'alive' ? result.measured : {}
    return { speed, pingMs, steps: stepsOf(result) }
  }

  test('is measured with 64 KiB when that is slow', async () => {
    expect(await speedOf(300)).toEqual({
      speed: Math.round(65_536 / 0.3),
      pingMs: 300,
      steps: ['judge http ok', 'speed http ok'],
    })
  })

  test('is measured with 256 KiB when the smaller payload is fast', async () => {
    expect(await speedOf(100)).toEqual({
      speed: 2_621_440,
      pingMs: 100,
      steps: ['judge http ok', 'speed http ok', 'speed http ok'],
    })
  })

  test('fails the check when the payload is altered, which only a speed request finds', async () => {
    expect(wordOf(await checkNew(flipsPayloads(), { wantsSpeed: true }))).toBe('altered')
    expect(wordOf(await checkNew(flipsPayloads()))).toBe('http elite')
  })

  test('is unknown when it cannot be measured', async () => {
    let asked = 0
    const behave = http({ change: answer => (++asked > 1 ? answer.subarray(0, -1) : answer) })
    expect(await measuredOf(behave, { wantsSpeed: true })).not.toHaveProperty('speed')
  })
})

describe('a check', () => {
  test('finds a repeated response as replayed', async () => {
    const proxy = await startProxy(replays())
    const words = [await prober.check(proxy), await prober.check(proxy)].map(wordOf)
    expect(words).toEqual(['http elite', 'replayed'])
  })

  test('finds a response to another check in flight as replayed', async () => {
    const proxy = await startProxy(swaps())
    const both = await Promise.all([prober.check(proxy), prober.check(proxy)])
    expect(both.map(wordOf)).toEqual(['replayed', 'replayed'])
  })

  test.each(['port', 'tlsPort'] as const)(
    'does not use the judge itself as a proxy (%s)',
    async port => {
      const address: Address = { ip: US, port: prober.judge[port] }
      const result = await prober.check(address)
      expect([wordOf(result), stepsOf(result)]).toEqual(['own address', []])
    },
  )
})

describe('services', () => {
  const said: string[] = []
  const mail: Behaviour = client => {
    client.write('220-hello\r\n220 ready\r\n')
    client.on('data', bytes => said.push(`${bytes}`))
  }
  const pages: Behaviour = client => {
    client.once('data', bytes => {
      const path = `${bytes}`.split(' ')[1] ?? ''
      client.end(page(path.endsWith('/404') ? 404 : 200, `this is ${path}`))
    })
  }

  async function servicesOf(behave: Behaviour, request: Partial<CheckRequest> = {}) {
    const web = await startProxy(pages, US)
    const post = await startProxy(mail, US)
    const target = (
      service: 'telegram' | 'avito' | 'google' | 'provider',
      path: string,
      expected = {},
    ): Target => ({
      ...{ kind: 'page', service, url: new URL(`http://www.example:${web.port}${path}`) },
      ...{ host: 'www.example', port: web.port },
      ...{ status: 200, match: '', not: '', ...expected },
    })
    const targets: Target[] = [
      target('telegram', '/telegram', { match: 'is /telegram' }),
      target('avito', '/404', { status: 404 }),
      target('google', '/captcha', { not: 'captcha' }),
      target('provider', '/404'),
      { kind: 'mail', service: 'smtp', host: 'mail.example', port: post.port },
    ]
    const testing = await startProber({ targets })
    const result = await testing.check(await startProxy(behave), {
      wantsServices: true,
      ...request,
    })
    return result.kind === 'alive' ? result.measured.services : wordOf(result)
  }
  const works = { telegram: true, avito: true, google: false, provider: false }

  test.each([
    ['socks5', socks([5]), true],
    ['socks4', socks([4]), true],
    ['http, which cannot tunnel', http(), false],
    ['CONNECT', http({ tunnel: 'forward' }), true],
    ['CONNECT only', http({ plain: page(405), tunnel: 'forward' }), true],
  ])('are tested over %s', async (_, behave, smtp) => {
    said.length = 0
    expect(await servicesOf(behave)).toEqual({ ...works, smtp })
    if (smtp) await until(() => said.length > 0)
    expect(said).toEqual(smtp ? ['QUIT\r\n'] : [])
  })
})

describe('a check within its limits', () => {
  /** Runs a check; time passes whenever it only waits for the proxy. */
  async function hangs(behave: Behaviour, request: Partial<CheckRequest> = {}) {
    const { timers, check } = prober
    const proxy = await startProxy(behave)
    let isOver = false
    const checking = check(proxy, request).finally(() => {
      isOver = true
    })
    while (!isOver) {
      await new Promise(resolve => setImmediate(resolve)) // what follows a timer has happened
      await until(() => isOver || !timers.has(CONNECT_MS_MAX))
      timers.pass(timers.has(FIRST_BYTE_MS_MAX) ? FIRST_BYTE_MS_MAX : CHECK_MS_MAX)
    }
    expect(timers.size()).toBe(0)
    return checking
  }

  test('tries a silent proxy of unknown type once in each type', async () => {
    expect(stepsOf(await hangs(() => {}))).toEqual([
      'judge http no answer',
      'judge socks5 no answer',
      'judge socks4 no answer',
    ])
  })

  test('retries a known type once', async () => {
    expect(stepsOf(await hangs(() => {}, { known: 'socks4' }))).toEqual([
      'judge socks4 no answer',
      'judge socks4 no answer',
      'judge http no answer',
      'judge socks5 no answer',
    ])
  })

  test('dials an address that does not answer twice', async () => {
    const later = (run: () => void, ms: number): (() => void) => {
      if (ms === CONNECT_MS_MAX && isImpatient) queueMicrotask(run)
      return () => {}
    }
    let isImpatient = false
    const impatient = await startProber({ later })
    isImpatient = true
    const result = await impatient.check(await startProxy(http()))
    expect([wordOf(result), stepsOf(result)]).toEqual([
      'timeout',
      ['judge http timeout', 'judge http timeout'],
    ])
  })

  test('ends after fifteen seconds, also between two connections', async () => {
    let nowMs = 0
    const late = await startProber({ elapsedMs: () => nowMs })
    const proxy = await startProxy(client => {
      nowMs = CHECK_MS_MAX - 0.5
      client.end()
    })
    const result = await late.check(proxy)
    expect([wordOf(result), stepsOf(result)]).toEqual(['closed', ['judge http closed']])
  })

  test('dials a closed port once', async () => {
    const { ip, port, stop } = await startProxy(http())
    await stop()
    const result = await prober.check({ ip, port })
    expect([wordOf(result), stepsOf(result)]).toEqual(['refused', ['judge http refused']])
  })
})

describe('the prober', () => {
  test('checks nothing before the judge has answered', async () => {
    const { probe } = createProber(prober.options)
    const wants = { wantsSpeed: false, wantsServices: false, wantsTls: false }
    const result = await probe({ address: { ip: EXIT, port: 80 }, known: null, named: 0, ...wants })
    expect(result).toMatchObject({ kind: 'deferred', why: 'the judge has not answered yet' })
  })

  test('defers an address without a route', async () => {
    const result = await prober.check({ ip: '255.255.255.255', port: 80 })
    expect(wordOf(result)).toBe(
      'deferred: this machine has no file descriptor left, or no route to the address',
    )
  })

  test('fails checks after a change of the judge’s clock; the next self-check counts as a restart', async () => {
    const stepping = await startProber()
    stepping.judge.setNow(NOW + 3_600_000)
    const proxy = await startProxy(http())
    expect(wordOf(await stepping.check(proxy))).toBe('not a proxy')
    expect(await stepping.selfCheck()).toEqual({ ok: true, runsForMs: 0 })
    expect(wordOf(await stepping.check(proxy))).toBe('http elite')
  })

  test('takes the peer that the judge sees as one of our addresses', async () => {
    const learning = await startProber({ ownAddresses: [] })
    expect(wordOf(await learning.check(await startProxy(http({ exit: US }))))).toBe(
      'http transparent by peer',
    )
  })
})

describe('a self-check', () => {
  test('learns how long the judge has been running', async () => {
    const { selfCheck } = createProber(prober.options)
    expect(await selfCheck()).toEqual({ ok: true, runsForMs: NOW - T0 })
  })

  test.each([3_600_000, -3_600_000])('learns a clock that is %d ms ahead', async ms => {
    const { selfCheck } = createProber({ ...prober.options, clock: () => NOW - ms })
    const checks = [await selfCheck(), await selfCheck()]
    expect(checks.map(found => found.ok && found.runsForMs)).toEqual([0, NOW - T0])
  })

  /** Other URLs of the judge, and other options. */
  type Change = { plain?: string; tls?: string } & Omit<Partial<ProberOptions>, 'judge'>
  const at = async (behave: Behaviour): Promise<number> => (await startProxy(behave, US)).port
  const reverse = reverseProxy(() => prober.judge.port)
  /** Answers without a page. */
  const olderJudge: Behaviour = client =>
    client.once('data', bytes => {
      const token = new RegExp(TOKEN).exec(`${bytes}`)?.[0] ?? ''
      const answer = { token, peer: US, headers: [], form: 'origin', tls: false } as const
      client.end(page(200, writeAnswer(KEYS, { ...answer, time: NOW, started: T0 })))
    })
  async function ended(): Promise<Change> {
    const { tlsPort } = await startTestJudge({}, CERTIFICATES.ended)
    const authorities = readFileSync(CERTIFICATES.ended.cert, 'utf8')
    return { tls: `https://${JUDGE_NAME}:${tlsPort}`, authorities }
  }
  const problems: [string, () => Promise<Change>, string][] = [
    ['a certificate that has ended', ended, 'has an expired certificate'],
    ['no listener', async () => ({ plain: `http://${JUDGE_NAME}:1` }), 'refuses connections'],
    [
      'no IPv4 address',
      async () => ({ resolve: async () => ['::1'] }),
      'has a name without an IPv4 address: does DNS work?',
    ],
    [
      'a private address',
      async () => ({ allowsPrivate: false }),
      'has a private address (127.0.0.1)',
    ],
    [
      'another program',
      async () => ({ plain: `http://a:${await at(says(page(200)))}` }),
      'is not a judge',
    ],
    [
      'another secret',
      async () => ({ keys: keysOf(new Uint8Array(32)) }),
      'refuses our token: it has another secret',
    ],
    [
      'an older version',
      async () => ({ plain: `http://a:${await at(olderJudge)}` }),
      'upgrade judge and checker to the same version',
    ],
    ['a proxy before it', async () => ({ plain: `http://a:${await at(reverse)}` }), 'changes Via'],
    [
      'another authority',
      async () => ({ authorities: OTHER_AUTHORITY }),
      'or from an unknown authority: see --judge-ca (read at the start)',
    ],
    [
      'another name',
      async () => ({ tls: `https://b.example:${prober.judge.tlsPort}` }),
      'has a certificate for another name, ',
    ],
    [
      'no TLS',
      async () => ({ tls: `https://a:${await at(says(page(200)))}` }),
      'does not speak TLS',
    ],
  ]
  test.each(problems)('says that the judge has %s', async (_, change, problem) => {
    const { options } = prober
    const { plain, tls, ...more } = await change()
    const judge = {
      plain: plain === undefined ? options.judge.plain : new URL(plain),
      tls: tls === undefined ? options.judge.tls : new URL(tls),
    }
    const result = await createProber({ ...options, ...more, judge }).selfCheck()
    const sentence = /^the judge at https?:\/\/\S+ [a-z]/
    expect(result).toEqual({ ok: false, problem: expect.stringMatching(sentence) })
    expect(result).toMatchObject({ problem: expect.stringContaining(problem) })
    expect(prober.timers.size()).toBe(0)
  })

  test('times out, also while it looks up a name', async () => {
    const never = new Promise<never>(() => {})
    const checking = createProber({ ...prober.options, resolve: () => never }).selfCheck()
    prober.timers.pass(CHECK_MS_MAX)
    expect((await checking).ok).toBeFalse()
    expect(prober.timers.size()).toBe(0)
  })
})
