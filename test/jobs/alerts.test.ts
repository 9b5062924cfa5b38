import { describe, expect, test } from 'bun:test'
import { type Alert, createAlerts } from '../../src/jobs/alerts.ts'
import { MINUTE_MS, SECOND_MS } from '../../src/lib/time.ts'
import type { Attention } from '../../src/metrics/attention.ts'
import { T0 } from '../support/fixtures.ts'
import { until } from '../support/until.ts'

const EMPTY: Attention = {
  reason: 'list_empty',
  sentence: 'the list is empty; import one',
  link: '#import',
}
const DISK: Attention = { reason: 'disk', sentence: '1 MB are free', link: '#overview' }

/** A receiver that answers with these statuses in turn, then 200; and alerts to it by a clock that stands still. */
async function world(...statuses: number[]) {
  const received: Alert[] = []
  const said: string[] = []
  const pauses: number[] = []
  let found: Attention[] = []
  let nowMs = T0
  const server = Bun.serve({
    ...{ hostname: '127.0.0.1', port: 0 },
    async fetch(request) {
      const status = statuses.shift() ?? 200
      if (status === 200) received.push((await request.json()) as Alert)
      return new Response('', { status })
    },
  })
  const alerts = createAlerts({
    ...{ url: `http://127.0.0.1:${server.port}/topic?token=secret`, site: 'acme' },
    attention: async () => found,
    clock: () => nowMs,
    pause: async ms => void pauses.push(ms),
    say: sentence => void said.push(sentence),
  })
  return {
    ...{ received, said, pauses, alerts },
    at(afterMs: number, ...now: Attention[]): Promise<void> {
      nowMs = T0 + afterMs
      found = now
      return alerts.tick()
    },
    [Symbol.asyncDispose]: () => server.stop(true),
  }
}

describe('an alert', () => {
  test('is sent when a reason begins and when it ends, each after a minute', async () => {
    await using it = await world()
    await it.at(0, EMPTY)
    await it.at(59 * SECOND_MS, EMPTY)
    expect(it.received).toEqual([])
    await it.at(MINUTE_MS, EMPTY)
    await until(() => it.received.length === 1)
    await it.at(2 * MINUTE_MS, EMPTY) // says nothing more
    await it.at(3 * MINUTE_MS)
    await it.at(4 * MINUTE_MS)
    await until(() => it.received.length === 2)
    const [reason, site] = ['list_empty', 'acme']
    expect(it.received).toEqual([
      {
        text: 'the list is empty; import one',
        reason,
        state: 'begun',
        site,
        at: '2026-11-20T12:01:00.000Z',
      },
      {
        text: 'over: the list is empty',
        reason,
        state: 'over',
        site,
        at: '2026-11-20T12:04:00.000Z',
      },
    ])
  })

  test('is not sent for a reason that ends within a minute, or comes back within one', async () => {
    await using it = await world()
    await it.at(0, DISK)
    await it.at(30 * SECOND_MS)
    await it.at(MINUTE_MS, DISK)
    await it.at(2 * MINUTE_MS, DISK)
    await until(() => it.received.length === 1)
    await it.at(3 * MINUTE_MS)
    await it.at(3.5 * MINUTE_MS, DISK)
    await it.at(5 * MINUTE_MS, DISK)
    expect(it.received.map(({ state }) => state)).toEqual(['begun'])
  })

  test('is tried three times; then the failure is logged without the URL', async () => {
    await using it = await world(500, 503, 200, 500, 500, 302)
    await it.at(0, EMPTY)
    await it.at(MINUTE_MS, EMPTY)
    await until(() => it.received.length === 1)
    expect(it.said).toEqual([])
    await it.at(2 * MINUTE_MS)
    await it.at(3 * MINUTE_MS)
    await until(() => it.said.length === 1)
    expect(it.said).toEqual([
      'the alert list_empty (over) was not taken by --alert-url: status 302',
    ])
    expect(it.pauses).toEqual(Array.from({ length: 4 }, () => 10 * SECOND_MS))
  })
})
