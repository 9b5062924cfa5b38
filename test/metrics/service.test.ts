/** The metrics of a service: requests, list, cache and databases. */
import { afterAll, afterEach, describe, expect, spyOn, test } from 'bun:test'
import { join } from 'node:path'
import { FAMILIES } from '../../src/metrics/families.ts'
import { PROXY_FILE } from '../../src/sqlite/data-directory.ts'
import { CANARIES, CANARY, canaryDirectory, tracesIn } from '../support/canary.ts'
import { overwriteRoots } from '../support/damage.ts'
import { ASK, dataDirectory, type TestRow } from '../support/fixtures.ts'
import { type Exchange, startInProcess } from '../support/in-process.ts'
import { HAS_PROMTOOL, promtool, samplesOf, valueOf } from '../support/metrics.ts'
import { cleanUp, onCleanUp } from '../support/temporary.ts'

afterAll(cleanUp)

const ROWS: readonly TestRow[] = [
  { ip: '10.1.0.1:80', type: 'http', age: 10 },
  { ip: '10.2.0.1:80', type: 'socks5', age: 20 },
  { ip: '10.3.0.1:80', type: 'socks5', age: 700 },
]

/** Holds the values of series; names lack `proxylist_`, and labels are written as in the text. */
function expectSeries(text: string, expected: { readonly [series: string]: number | null }): void {
  const found = Object.keys(expected).map(series => {
    const [, name = '', labels = ''] = /^(\w+)(?:\{(.*)\})?$/.exec(series) ?? []
    const pairs = [...labels.matchAll(/(\w+)="([^"]*)"/g)].map(([, label, value]) => [label, value])
    return [series, valueOf(text, `proxylist_${name}`, Object.fromEntries(pairs))]
  })
  expect(Object.fromEntries(found)).toEqual(expected)
}

const start = (exchange?: Exchange) => startInProcess(dataDirectory(ROWS), {}, exchange)

describe('requests', () => {
  test('are counted by route, status and error code', async () => {
    const { request, metrics } = await start()
    for (const path of [ASK, ASK, '/api', '/api?key=demo&works=101', '/healthz', '/nothing']) {
      await request(path)
    }
    await request('/api', { method: 'POST' })
    const text = await metrics()
    const counted = samplesOf(text)
      .filter(({ name, value }) => name === 'proxylist_http_requests_total' && value > 0)
      .map(
        ({ labels: { route, status, code = '' }, value }) => `${route} ${status} ${code} ${value}`,
      )
    expect(counted).toEqual([
      '/api 200  2',
      '/api 400 KEY_MISSING 1',
      '/api 400 INVALID_PARAMETER 1',
      '/api 405 METHOD_NOT_ALLOWED 1',
      '/healthz 200  1',
      '(unknown) 404 NOT_FOUND 1',
    ])
    expect(valueOf(text, 'proxylist_http_requests_in_flight')).toBe(0)
  })

  test('add the records and bytes that were sent; HEAD sends none', async () => {
    const { request, metrics, traffic } = await start()
    const { text: body } = await request(ASK)
    const { text: refusal } = await request('/api')
    await request(ASK, { method: 'HEAD' })
    const text = await metrics()
    const bytes = body.length + refusal.length
    expect(valueOf(text, 'proxylist_http_sent_bytes_total', { route: '/api' })).toBe(bytes)
    expect(valueOf(text, 'proxylist_sent_records_total')).toBe(2)
    expect(traffic()).toMatchObject({ ok: 2, rejected: 1, bytes, records: 2 })
  })
})

/** A service whose stopwatch stands still, and which takes two seconds to admit a request. */
function startSlow() {
  let nowMs = 0
  const stopwatch = spyOn(performance, 'now').mockImplementation(() => nowMs)
  onCleanUp(() => stopwatch.mockRestore())
  return start(({ usage }) => ({
    usage: {
      ...usage,
      admit(batch) {
        nowMs += 2000
        return usage.admit(batch)
      },
    },
  }))
}

describe('the duration of a request', () => {
  const NAME = 'http_request_duration_seconds'
  afterEach(cleanUp)

  test('is the time until its reply is ready', async () => {
    const { request, metrics } = await startSlow()
    await request(ASK)
    expectSeries(await metrics(), {
      [`${NAME}_sum{route="/api"}`]: 2,
      [`${NAME}_bucket{route="/api",le="1"}`]: 0,
      [`${NAME}_bucket{route="/api",le="5"}`]: 1,
    })
  })
})

describe('the limits', () => {
  test('show admitted and refused requests by kind of key and error code', async () => {
    const { request, metrics } = await startInProcess(canaryDirectory(), {})
    for (const key of ['demo', 'demo', 'demo', CANARY.once, CANARY.once, CANARY.temp_good]) {
      await request(`/api?key=${key}`)
    }
    expectSeries(await metrics(), {
      'admissions_total{kind="demo"}': 2,
      'admissions_total{kind="regular"}': 1,
      'admissions_total{kind="temp"}': 1,
      'http_requests_total{route="/api",status="429",code="DEMO_LIMIT_REACHED"}': 1,
      'http_requests_total{route="/api",status="429",code="RATE_LIMIT_EXCEEDED"}': 1,
    })
  })
})

test('the response cache shows hits, misses, entries and bytes', async () => {
  const { request, metrics } = await start()
  for (let i = 0; i < 4; i += 1) await request(ASK) // it is stored the second time
  const text = await metrics()
  expectSeries(text, {
    ...{ cache_misses_total: 2, cache_hits_total: 2, cache_evictions_total: 0 },
    ...{ cache_entries: 1, cache_max_bytes: 2 ** 20 },
  })
  expect(valueOf(text, 'proxylist_cache_bytes')).toBeGreaterThan(0)
})

describe('the list', () => {
  test('shows its rows by type, its fresh rows, and the ages of its checks', async () => {
    const { metrics, setClock } = await start()
    setClock(5)
    expectSeries(await metrics(), {
      ...{ list_rows: 3, list_fresh_rows: 2 },
      'list_rows_by_type{type="http"}': 1,
      'list_rows_by_type{type="socks5"}': 2,
      'list_rows_by_type{type="socks4"}': 0,
      ...{ list_newest_check_age_seconds: 15, list_median_check_age_seconds: 25 },
    })
  })

  test('that is empty has no ages', async () => {
    const { metrics } = await startInProcess(dataDirectory([]), {})
    expectSeries(await metrics(), {
      ...{ list_rows: 0, list_newest_check_age_seconds: null, list_median_check_age_seconds: null },
    })
  })

  test('that cannot be read leaves the other metrics, and its database is shown as failing', async () => {
    const dir = dataDirectory(ROWS)
    const { request, metrics } = await startInProcess(dir, {})
    const file = join(dir, PROXY_FILE)
    const database = { database: PROXY_FILE }
    overwriteRoots(file)
    expect((await request(ASK)).status).toBe(503)
    const text = await metrics()
    expect(valueOf(text, 'proxylist_database_failures_total', database)).toBeGreaterThan(0)
    expectSeries(text, {
      'database_up{database="proxies.db"}': 0,
      list_rows: null,
      'http_requests_total{route="/api",code="DB_EXECUTE_FAILED"}': 1,
    })
  })
})

describe('client input', () => {
  const METHODS = ['GET', 'POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS']

  test('adds no series: thousands of paths, methods and queries', async () => {
    const { request, metrics } = await start()
    const seriesOf = (text: string) =>
      samplesOf(text).map(({ name, labels }) => `${name} ${JSON.stringify(labels)}`)
    for (const method of METHODS) {
      for (const path of ['/x', '/api', '/healthz', '/readyz']) await request(path, { method })
    }
    const before = seriesOf(await metrics())
    expect(new Set(before).size).toBe(before.length)
    for (let i = 0; i < 5000; i += 1) {
      await request(`/p${i}/${'x'.repeat(i % 50)}?k=${i}`, { method: METHODS[i % 6] ?? 'GET' })
    }
    expect(seriesOf(await metrics())).toEqual(before)
  })

  test('is in no label: no key, key id, path or query', async () => {
    const { request, metrics, output } = await startInProcess(canaryDirectory(), {})
    for (const key of CANARIES) {
      await request(`/api?key=${key}`)
      await request(`/${key}/mistyped?key=${key}`)
      await request('/api', { headers: { authorization: `Bearer ${key}` } })
    }
    const text = await metrics()
    expect(tracesIn(text)).toEqual([])
    expect(text).not.toContain('mistyped')
    const ids = [...output().matchAll(/"key":"([^"]+)"/g)].map(([, id = '']) => id)
    expect(ids).not.toBeEmpty()
    for (const id of new Set(ids)) if (id !== 'demo') expect(text).not.toContain(id)
  })
})

test('the text has exactly the families of the table, with their help, type and labels', async () => {
  const { request, metrics } = await start()
  for (const path of [ASK, '/api', '/nothing']) await request(path)
  const text = await metrics()
  const heads = [...text.matchAll(/^# HELP (\S+) (.*)\n# TYPE (\S+) (\S+)$/gm)]
  expect(heads.map(([, name, help, again, type]) => [name, help, again, type])).toEqual(
    FAMILIES.map(({ name, help, type }) => [name, help, name, type]),
  )
  const found = new Map<string, Set<string>>()
  for (const { name, labels } of samplesOf(text)) {
    const family = name.replace(/(?<=_seconds)_(?:bucket|sum|count)$/, '')
    const own = Object.keys(labels).filter(label => label !== 'le')
    found.set(family, new Set([...(found.get(family) ?? []), ...own]))
  }
  const expected = FAMILIES.filter(({ name }) => found.has(name))
  expect([...found].map(([name, labels]) => [name, [...labels]])).toEqual(
    expected.map(({ name, labels }) => [name, [...labels]]),
  )
  if (HAS_PROMTOOL) expect(await promtool(['check', 'metrics'], text)).toBe('')
})
