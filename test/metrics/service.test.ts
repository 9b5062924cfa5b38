/** Holds what the metrics of a service show of requests, list, cache and databases. */
import { afterAll, afterEach, describe, expect, spyOn, test } from 'bun:test'
import { renameSync } from 'node:fs'
import { join } from 'node:path'
import { FAILURES_FREE } from '../../src/access/auth-throttle.ts'
import type { AnswerStream, Sent } from '../../src/api/answer.ts'
import { FAMILIES } from '../../src/metrics/families.ts'
import { PROXY_FILE } from '../../src/sqlite/data-directory.ts'
import { CANARIES, CANARY, canaryDirectory, tracesIn } from '../support/canary.ts'
import { ASK, dataDirectory, type TestRow } from '../support/fixtures.ts'
import { type Exchange, startInProcess } from '../support/in-process.ts'
import { samplesOf, valueOf } from '../support/metrics.ts'
import { HAS_PROMTOOL, promtool } from '../support/promtool.ts'
import type { ServeOptions } from '../support/service.ts'
import { NO_STREAMER } from '../support/streamer.ts'
import { cleanUp, onCleanUp } from '../support/temporary.ts'

afterAll(cleanUp)

const ROWS: readonly TestRow[] = [
  { ip: '10.1.0.1:80', type: 'http', age: 10 },
  { ip: '10.2.0.1:80', type: 'socks5', age: 20 },
  { ip: '10.3.0.1:80', type: 'socks5', age: 700 },
]

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

  test('are counted by how long they took, each once', async () => {
    const { request, metrics } = await start()
    for (let i = 0; i < 5; i += 1) await request(ASK)
    const text = await metrics()
    const name = 'proxylist_http_request_duration_seconds'
    const route = { route: '/api' }
    expect(valueOf(text, `${name}_count`, route)).toBe(5)
    expect(valueOf(text, `${name}_bucket`, { ...route, le: '+Inf' })).toBe(5)
    expect(valueOf(text, `${name}_sum`, route)).toBeGreaterThan(0)
    const buckets = samplesOf(text).filter(
      sample => sample.name === `${name}_bucket` && sample.labels.route === '/api',
    )
    expect(buckets).toHaveLength(12)
    const values = buckets.map(({ value }) => value)
    expect(values).toEqual(values.toSorted((a, b) => a - b)) // each holds those below it
  })

  test('add the records and bytes that were sent; HEAD sends none', async () => {
    const { request, metrics, traffic } = await start()
    const { text: body } = await request(ASK)
    const { text: refusal } = await request('/api')
    await request(ASK, { method: 'HEAD' })
    const text = await metrics()
    const bytes = body.length + refusal.length
    expect(valueOf(text, 'proxylist_http_sent_bytes_total', { route: '/api' })).toBe(bytes)
    expect(valueOf(text, 'proxylist_sent_records_total')).toBe(4)
    expect(traffic()).toMatchObject({ ok: 2, rejected: 1, bytes, records: 4 })
  })
})

/** A service whose stopwatch stands still, and which takes two seconds to admit a request. */
async function startSlow(options: ServeOptions = {}) {
  let nowMs = 0
  const stopwatch = spyOn(performance, 'now').mockImplementation(() => nowMs)
  onCleanUp(() => stopwatch.mockRestore())
  const passMs = (ms: number): void => {
    nowMs += ms
  }
  const service = await startInProcess(dataDirectory(ROWS), options, ({ usage }) => ({
    usage: {
      ...usage,
      admit(batch) {
        passMs(2000)
        return usage.admit(batch)
      },
    },
  }))
  return { ...service, passMs }
}

describe('the duration of a request', () => {
  const NAME = 'proxylist_http_request_duration_seconds'
  afterEach(cleanUp)

  test('is the time until its reply is ready', async () => {
    const { request, metrics } = await startSlow()
    await request(ASK)
    const text = await metrics()
    expect(valueOf(text, `${NAME}_sum`, { route: '/api' })).toBe(2)
    expect(valueOf(text, `${NAME}_bucket`, { route: '/api', le: '1' })).toBe(0)
    expect(valueOf(text, `${NAME}_bucket`, { route: '/api', le: '5' })).toBe(1)
  })

  test('lacks the delay of wrong keys, which says nothing of how fast the service is', async () => {
    const delays: (() => void)[] = []
    const { request, metrics, passMs } = await startSlow({
      later(run) {
        delays.push(run)
        return () => {}
      },
    })
    const wrong = () => request('/api?key=pl_nobody')
    for (let i = 0; i < FAILURES_FREE; i += 1) await wrong()
    const delayed = wrong()
    while (delays.length === 0) await new Promise(resume => setImmediate(resume))
    passMs(300)
    for (const run of delays) run()
    await delayed
    const text = await metrics()
    expect(valueOf(text, `${NAME}_count`, { route: '/api' })).toBe(FAILURES_FREE + 1)
    expect(valueOf(text, `${NAME}_sum`, { route: '/api' })).toBe(0)
  })
})

describe('requests that take their time', () => {
  test('are in flight while they wait for their reply, and counted once they have it', async () => {
    const { promise, resolve } = Promise.withResolvers<void>()
    const { request, metrics } = await start(({ usage }) => ({
      usage: {
        ...usage,
        admit: async batch => {
          await promise
          return usage.admit(batch)
        },
      },
    }))
    const waiting = request(ASK)
    const text = await metrics()
    expect(valueOf(text, 'proxylist_http_requests_in_flight')).toBe(1)
    expect(valueOf(text, 'proxylist_http_requests_total', { route: '/api', status: '200' })).toBe(0)
    resolve()
    await waiting
    expect(valueOf(await metrics(), 'proxylist_http_requests_in_flight')).toBe(0)
  })

  test('whose answers are streams show those under way, and what they sent when they are over', async () => {
    const { promise, resolve: opened } = Promise.withResolvers<(sent: Sent) => void>()
    const stream: AnswerStream = {
      kind: 'stream',
      totals: null,
      open(onEnd) {
        opened(onEnd)
        return new ReadableStream({ start: controller => controller.close() })
      },
      cancel: async () => {},
    }
    const { request, metrics } = await start(({ proxies }) => ({
      proxies: { ...proxies, findEndpoints: () => 'too-large' },
      streamer: { ...NO_STREAMER, stream: async () => stream },
    }))
    await request(ASK)
    const during = await metrics()
    expect(valueOf(during, 'proxylist_streams_total')).toBe(1)
    expect(valueOf(during, 'proxylist_streams_under_way')).toBe(1)
    expect(valueOf(during, 'proxylist_sent_records_total')).toBe(0)
    const end = await promise
    end({ records: 7, bytes: 70, isTruncated: true })
    await Promise.resolve()
    const after = await metrics()
    expect(valueOf(after, 'proxylist_streams_under_way')).toBe(0)
    expect(valueOf(after, 'proxylist_streams_truncated_total')).toBe(1)
    expect(valueOf(after, 'proxylist_sent_records_total')).toBe(7)
    expect(valueOf(after, 'proxylist_http_sent_bytes_total', { route: '/api' })).toBe(70)
  })
})

describe('the limits', () => {
  test('show whom they admitted and refused, by kind of key and error code', async () => {
    const { request, metrics } = await startInProcess(canaryDirectory(), {})
    for (const key of ['demo', 'demo', 'demo', CANARY.once, CANARY.once, CANARY.temp_good]) {
      await request(`/api?key=${key}`)
    }
    const text = await metrics()
    const admitted = (kind: string) => valueOf(text, 'proxylist_admissions_total', { kind })
    expect([admitted('demo'), admitted('regular'), admitted('temp')]).toEqual([2, 1, 1])
    const refused = (code: string) => valueOf(text, 'proxylist_refusals_total', { code })
    expect([refused('DEMO_LIMIT_REACHED'), refused('RATE_LIMIT_EXCEEDED')]).toEqual([1, 1])
    expect(refused('DAILY_LIMIT_REACHED')).toBe(0)
  })

  test('show what was given back because we could not answer', async () => {
    const { request, metrics } = await start(({ proxies }) => ({
      proxies: {
        ...proxies,
        findEndpoints() {
          throw new TypeError('a defect')
        },
      },
    }))
    expect((await request(ASK)).status).toBe(500)
    expect(valueOf(await metrics(), 'proxylist_admissions_given_back_total')).toBe(1)
  })
})

test('the response cache shows hits, misses, entries and bytes', async () => {
  const { request, metrics } = await start()
  for (let i = 0; i < 4; i += 1) await request(ASK) // it is stored the second time
  const text = await metrics()
  expect(valueOf(text, 'proxylist_cache_misses_total')).toBe(2)
  expect(valueOf(text, 'proxylist_cache_hits_total')).toBe(2)
  expect(valueOf(text, 'proxylist_cache_evictions_total')).toBe(0)
  expect(valueOf(text, 'proxylist_cache_entries')).toBe(1)
  expect(valueOf(text, 'proxylist_cache_bytes')).toBeGreaterThan(0)
  expect(valueOf(text, 'proxylist_cache_max_bytes')).toBe(2 ** 20)
})

describe('the list', () => {
  test('shows its rows by type, those that are fresh, and the ages of its checks', async () => {
    const { metrics, setClock } = await start()
    setClock(5)
    const text = await metrics()
    expect(valueOf(text, 'proxylist_list_rows')).toBe(3)
    const ofType = (type: string) => valueOf(text, 'proxylist_list_rows_by_type', { type })
    expect([ofType('http'), ofType('socks5'), ofType('socks4')]).toEqual([1, 2, 0])
    expect(valueOf(text, 'proxylist_list_fresh_rows')).toBe(2)
    expect(valueOf(text, 'proxylist_list_newest_check_age_seconds')).toBe(15)
    expect(valueOf(text, 'proxylist_list_median_check_age_seconds')).toBe(25)
  })

  test('that is empty has no ages', async () => {
    const { metrics } = await startInProcess(dataDirectory([]), {})
    const text = await metrics()
    expect(valueOf(text, 'proxylist_list_rows')).toBe(0)
    expect(valueOf(text, 'proxylist_list_newest_check_age_seconds')).toBeNull()
    expect(valueOf(text, 'proxylist_list_median_check_age_seconds')).toBeNull()
  })

  test('that was checked by a clock that was ahead has the age 0', async () => {
    const { metrics, setClock } = await start()
    setClock(-100)
    expect(valueOf(await metrics(), 'proxylist_list_newest_check_age_seconds')).toBe(0)
  })

  test('that cannot be read leaves the other metrics, and shows that its database fails', async () => {
    const dir = dataDirectory(ROWS)
    const { request, metrics } = await startInProcess(dir, {})
    const file = join(dir, PROXY_FILE)
    const database = { database: PROXY_FILE }
    expect(valueOf(await metrics(), 'proxylist_database_up', database)).toBe(1)
    renameSync(file, `${file}.away`)
    expect((await request(ASK)).status).toBe(503)
    const text = await metrics()
    expect(valueOf(text, 'proxylist_database_up', database)).toBe(0)
    expect(valueOf(text, 'proxylist_database_failures_total', database)).toBeGreaterThan(0)
    expect(valueOf(text, 'proxylist_database_size_bytes', { ...database, file: 'main' })).toBe(0)
    expect(valueOf(text, 'proxylist_list_rows')).toBeNull()
    const failed = { route: '/api', code: 'DB_EXECUTE_FAILED' }
    expect(valueOf(text, 'proxylist_http_requests_total', failed)).toBe(1)
  })
})

describe('what clients send', () => {
  const METHODS = ['GET', 'POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS']

  test('makes no further series: thousands of paths, methods and queries', async () => {
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

  test('is in no label: no key, no id of one, no path, no query', async () => {
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

test('the text has every family of the table, with its help and type, and no other', async () => {
  const { metrics } = await start()
  const text = await metrics()
  const heads = [...text.matchAll(/^# HELP (\S+) (.*)\n# TYPE (\S+) (\S+)$/gm)]
  expect(heads.map(([, name, help, again, type]) => [name, help, again, type])).toEqual(
    FAMILIES.map(({ name, help, type }) => [name, help, name, type]),
  )
})

test('samples have the labels of the table, and no other', async () => {
  const { request, metrics } = await start()
  await request('/api')
  const labels = new Map<string, Set<string>>()
  for (const { name, labels: own } of samplesOf(await metrics())) {
    const family = name.replace(/(?<=_seconds)_(?:bucket|sum|count)$/, '')
    const known = labels.get(family) ?? new Set()
    for (const label of Object.keys(own)) if (label !== 'le') known.add(label)
    labels.set(family, known)
  }
  for (const [name, found] of labels) {
    expect([name, [...found]]).toEqual([
      name,
      [...(FAMILIES.find(f => f.name === name)?.labels ?? [])],
    ])
  }
})

test.if(HAS_PROMTOOL)('promtool finds nothing wrong with the text', async () => {
  const { request, metrics } = await start()
  for (const path of [ASK, '/api', '/nothing']) await request(path)
  expect(await promtool(['check', 'metrics'], await metrics())).toBe('')
})
