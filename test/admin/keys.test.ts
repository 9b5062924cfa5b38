/** Tests of the console's keys, plans and overview: shapes, changes, refusals, secrets. */
import { afterAll, describe, expect, test } from 'bun:test'
import { dataDirectory } from '../support/fixtures.ts'
import { proxylist } from '../support/program.ts'
import { cleanUp } from '../support/temporary.ts'
import { startConsole } from './console.ts'

afterAll(cleanUp)

const create = () => startConsole(dataDirectory())
type Service = ReturnType<typeof create>
const post = (json: unknown) => ({ method: 'POST', json })
const put = (json: unknown) => ({ method: 'PUT', json })
const DELETE = { method: 'DELETE' }

/** Makes a key; gives its id and secret. */
async function made(on: Service, json: object = { kind: 'regular' }) {
  const { status, text } = await on.ask('/console/keys', post(json))
  expect(status).toBe(201)
  return JSON.parse(text) as { id: string; key: string }
}

/** That of a new temporary key. */
const TRIAL_LIMIT = { name: 'key', quota: 2, window: 3600, left: 2, reset: 0 }

/** For tests that do not mind each other. */
const service = create()
const messageOf = async (path: string, asking: object): Promise<string> => {
  const { status, text } = await service.ask(path, asking)
  return `${status} ${JSON.parse(text).message}`
}
const isServed = async (key: string): Promise<boolean> =>
  (await service.api(`/api?key=${key}&time=999999`)).startsWith('200')

describe('a key', () => {
  test('is made, listed, used and revoked, and the server sees each change at once', async () => {
    const { id, key } = await made(service, {
      kind: 'regular',
      label: 'first',
      note: 'n',
      expires: '30d',
    })
    expect(key).toMatch(/^pl_\w{32}$/)
    expect(await isServed(key)).toBeTrue()
    const trial = await made(service, { kind: 'temp', ttl: '1h', label: 'trial' })
    expect(trial).toEqual({ id: trial.id, key: expect.stringMatching(/^temp_\w{32}$/) })
    const { keys } = await service.value('/console/keys')
    expect(keys).toContainEqual({
      ...{ id: trial.id, plan: null },
      ...{ prefix: expect.any(String), label: 'trial', note: '', state: 'active' },
      ...{ created: '2026-11-20T12:00:00.000Z', expires: '2026-11-20T13:00:00.000Z' },
      ...{ requests_today: 0, refused_today: 0, last_seen: null },
      limits: [TRIAL_LIMIT],
    })
    expect(keys).toContainEqual({
      ...{
        id,
        prefix: key.slice(0, 8),
        label: 'first',
        note: 'n',
        plan: 'standard',
        state: 'active',
      },
      ...{ created: '2026-11-20T12:00:00.000Z', expires: '2026-12-20T12:00:00.000Z' },
      ...{ requests_today: 1, refused_today: 0, last_seen: '2026-11-20T12:00:00.000Z' },
      limits: [
        { name: 'burst', quota: 5, window: 5, left: 4, reset: 5 },
        { name: 'daily', quota: 34_560, window: 86_400, left: 34_559, reset: 43_200 },
      ],
    })
    const revoked = await service.value(`/console/keys/${id}/revoke`, post({}))
    expect(revoked).toMatchObject({ id, label: 'first', state: 'revoked' })
    expect(await service.value(`/console/keys/${id}`)).toEqual(revoked)
    expect(await service.api(`/api?key=${key}`)).toBe('403 INVALID_KEY')
    expect(await service.short(`/console/keys/${id}`, DELETE)).toBe('200 {}')
    expect(await service.short(`/console/keys/${id}`)).toBe('404 NOT_FOUND')
  })

  test('of another process is visible here, and other processes see a key made here', async () => {
    const dir = dataDirectory()
    const on = startConsole(dir)
    const { id } = await made(on)
    const { stdout } = await proxylist(['keys', 'show', id, '--json', '--data', dir])
    expect(await on.value(`/console/keys/${id}`)).toEqual(JSON.parse(stdout))
  })

  test('changes only in the given members; `never` removes its end; markup in a label is text', async () => {
    const { id } = await made(service, { kind: 'regular', label: 'a', expires: '1d' })
    const path = `/console/keys/${id}`
    const changed = await service.value(path, post({ plan: 'classic' }))
    expect(changed).toMatchObject({ plan: 'classic', label: 'a', state: 'active' })
    expect(await service.value(path, post({ note: 'owes' }))).toMatchObject({
      note: 'owes',
      label: 'a',
    })
    const from = '192.0.2.0/24'
    expect(await service.value(path, post({ from }))).toMatchObject({ from, note: 'owes' })
    expect(await service.value(path, post({ from: '' }))).toMatchObject({ from: '', note: 'owes' })
    const label = '<img src=x onerror=alert(1)>"\'&amp;'
    expect(await service.value(path, post({ label, expires: 'never' }))).toMatchObject({
      ...{ plan: 'classic', label, expires: null },
    })
  })

  test('is rotated: both secrets work until the overlap ends', async () => {
    const { id, key } = await made(service)
    const path = `/console/keys/${id}/rotate`
    const rotated = await service.value(path, post({ overlap: '1h' }))
    expect(rotated).toMatchObject({
      overlap_until: '2026-11-20T13:00:00.000Z',
    })
    expect((await service.value(`/console/keys/${id}`)).old_secrets_until).toEqual([
      '2026-11-20T13:00:00.000Z',
    ])
    expect([await isServed(key), await isServed(rotated.key)]).toEqual([true, true])
    await service.value(`/console/keys/${id}`, post({ expires: '2026-11-20T12:30:00Z' }))
    expect(await service.value(path, post({ overlap: '24h' }))).toMatchObject({
      overlap_until: '2026-11-20T12:30:00.000Z',
    })
    const last = await service.value(path, post({ overlap: '0s' }))
    expect(last.overlap_until).toBeNull()
    expect([await isServed(key), await isServed(last.key)]).toEqual([false, true])
  })

  test('shows its secret once: no other answer, log line or message has it', async () => {
    const { id, key } = await made(service)
    const rotated = await service.value(`/console/keys/${id}/rotate`, post({}))
    await service.api(`/api?key=${key}`)
    const paths = ['/console/keys', `/console/keys/${id}`, '/console/overview', '/metrics']
    const answers = await Promise.all(paths.map(path => service.ask(path)))
    const all = [...answers.map(({ text }) => text), ...service.lines, ...service.said].join('\n')
    for (const secret of [key, rotated.key, service.token]) expect(all).not.toContain(secret)
    expect(service.lines).not.toBeEmpty()
  })
})

const BAD_KEYS: readonly (readonly [json: unknown, message: string | RegExp])[] = [
  [{}, 'kind must be regular or temp'],
  [null, 'the body must be a JSON object'],
  [{ kind: 'regular', expire: '1d' }, "unknown member 'expire'; it may have plan, label"],
  [
    { kind: 'regular', ttl: '1h' },
    "unknown member 'ttl'; it may have plan, label, note, from, expires",
  ],
  [{ kind: 'temp', plan: 'classic' }, "unknown member 'plan'; it may have ttl, label, note"],
  [{ kind: 'regular', label: 'a\nb' }, 'label must be up to 200 printable characters'],
  [{ kind: 'regular', expires: 'soon' }, /^expires must be a duration such as 30d/],
  [{ kind: 'regular', expires: '2020-01-01' }, /^expires must lie in the future/],
]

describe('a refused key', () => {
  test('gets the messages of the command line', async () => {
    const { id } = await made(service)
    expect(await messageOf(`/console/keys/${id}`, DELETE)).toBe(`409 key ${id} is not revoked`)
    for (const action of ['/rotate', '/revoke', '/reset', '']) {
      const asking = post(action === '' ? { label: 'x' } : {})
      expect(await service.short(`/console/keys/nobody${action}`, asking)).toBe('404 NOT_FOUND')
    }
  })

  test.each(BAD_KEYS)('is not made from %p', async (json, message) => {
    const before = await service.value('/console/keys')
    const said = await messageOf('/console/keys', post(json))
    expect(said).toStartWith('400 ')
    expect(said.slice(4)).toMatch(message)
    expect(await service.value('/console/keys')).toEqual(before)
  })

  test('is not made from a body that is too long or not JSON', async () => {
    const headers = { 'content-type': 'application/json' }
    const send = (body: string) => service.short('/console/keys', { method: 'POST', body, headers })
    for (const body of ['', '{', '{"kind":"regular"}x', 'null', '\ud800']) {
      expect(await send(body)).toBe('400 INVALID_PARAMETER')
    }
    const long = JSON.stringify({ kind: 'regular', label: 'x'.repeat(64 * 1024) })
    expect(await send(long)).toBe('413 BODY_TOO_LARGE')
  })
})

describe('a plan', () => {
  const GOLD = '/console/plans/gold'
  const plans = async (): Promise<{ name: string; keys: number }[]> =>
    (await service.value('/console/plans')).plans

  test('is made, changed in the syntax of the command line, and removed', async () => {
    const burst = { requests: 9, seconds: 3 }
    const given = { burst: '9/3s', daily: '5', count: 'unlimited', enabled: 'off' }
    expect(await service.value(GOLD, put(given))).toEqual({
      ...{ name: 'gold', burst, daily: 5, subnets: null },
      ...{ clients: null, count: null, downloads: 4, enabled: false, keys: 0 },
      built_in: false,
    })
    const changed = await service.value(
      GOLD,
      put({ burst: '2/1m', daily: 'unlimited', subnets: '7', enabled: 'on' }),
    )
    expect(changed).toMatchObject({
      ...{ burst: { requests: 2, seconds: 60 }, daily: null, subnets: 7, enabled: true },
    })
    expect((await plans()).map(({ name }) => name)).toEqual([
      ...['classic', 'demo', 'free', 'gold', 'standard', 'temp'],
    ])
    expect(await service.short(GOLD, DELETE)).toBe('200 {}')
  })

  test('applies to its keys at once when it changes', async () => {
    await service.ask('/console/plans/own', put({}))
    const { key } = await made(service, { kind: 'regular', plan: 'own' })
    expect(await isServed(key)).toBeTrue()
    await service.ask('/console/plans/own', put({ enabled: 'off' }))
    expect(await service.api(`/api?key=${key}`)).toBe('403 INVALID_KEY')
    await service.ask('/console/plans/own', put({ enabled: 'on', burst: '1/24h' }))
    expect(await service.api(`/api?key=${key}`)).toBe('429 RATE_LIMIT_EXCEEDED')
  })

  test('counts its keys, and cannot be removed while it has some or is built in', async () => {
    await service.ask(GOLD, put({}))
    await made(service, { kind: 'regular', plan: 'gold' })
    const { keys = 0 } = (await plans()).find(({ name }) => name === 'temp') ?? {}
    await made(service, { kind: 'temp' })
    expect(await plans()).toContainEqual(expect.objectContaining({ name: 'gold', keys: 1 }))
    expect(await plans()).toContainEqual(expect.objectContaining({ name: 'temp', keys: keys + 1 }))
    for (const [name, said] of [
      ['classic', '409 plan classic is built in and stays'],
      ['gold', '409 plan gold is used by keys (1, revoked ones included); it stays'],
      ['none', '404 there is no plan of this name'],
    ] as const) {
      expect(await messageOf(`/console/plans/${name}`, DELETE)).toBe(said)
    }
  })
})

describe('a plan with bad limits', () => {
  const BAD = [
    ['gold', { daily: '0' }, '400 daily must be an integer of at least 1, or unlimited'],
    ['gold', { burst: '0/5s' }, /^400 burst must be REQUESTS\/DURATION/],
    ['gold', { dayly: '5' }, "400 unknown member 'dayly'; it may have burst, daily"],
    ['Gold', {}, /^400 the name must be a name of lower-case letters/],
    ['demo', { subnets: '5' }, '400 plan demo counts no networks: it has no subnets and clients'],
  ] as const
  test.each(BAD)('is refused: %s = %p', async (name, json, message) => {
    const before = await service.value('/console/plans')
    expect(await messageOf(`/console/plans/${name}`, put(json))).toMatch(message)
    expect(await service.value('/console/plans')).toEqual(before)
  })
})

describe('the overview', () => {
  test('shows the present state of the service', async () => {
    const service = create()
    const { key } = await made(service)
    await service.api(`/api?key=${key}&time=999999`)
    await service.api('/api?key=wrong')
    const state = await service.value('/console/state')
    expect(state).toMatchObject({ now: '2026-11-20T12:00:00.000Z', ready: true, problem: null })
    expect(state.uptime_seconds).toBeWithin(0, 300) // of the stopwatch, on a machine that may be busy
    const overview = await service.value('/console/overview')
    expect(overview.keys.used_today).toBe(1)
    expect(overview.list.rows).toBe(1)
    expect(overview.process.rss_bytes).toBeGreaterThan(1e6)
    expect(overview.process.data_bytes).toBeGreaterThan(1000)
  })

  test.each([
    ['1h', '200'],
    ['24h', '200'],
    ['30d', '400 INVALID_PARAMETER'],
    ['', '200'],
    ['2h', '400 INVALID_PARAMETER'],
    ['constructor', '400 INVALID_PARAMETER'],
  ])('takes the range %p: %s', async (range, expected) => {
    expect(await create().short(`/console/overview?range=${range}`)).toStartWith(expected)
  })
})

describe('the overview of a failing store', () => {
  test('shows its error while the list cannot be read', async () => {
    const service = create()
    service.list.close()
    const { ready, problem } = await service.value('/console/state')
    expect(ready).toBeFalse()
    expect(problem).toMatch(/^the list cannot be read: \S+proxies\.db is not open$/)
    const { list } = await service.value('/console/overview')
    expect(list).toBeNull()
  })
})

test('metrics need the token unless they are public; everything else always does', async () => {
  expect((await service.askBare('/metrics')).status).toBe(401)
  const { status, text, headers } = await service.ask('/metrics')
  expect(status).toBe(200)
  expect(headers.get('content-type')).toStartWith('text/plain; version=0.0.4')
  expect(text).toContain('# TYPE proxylist_http_requests_total counter')
  const open = startConsole(dataDirectory(), { metricsOpen: true })
  expect((await open.askBare('/metrics')).status).toBe(200)
  expect((await open.askBare('/console/overview')).status).toBe(401)
})
