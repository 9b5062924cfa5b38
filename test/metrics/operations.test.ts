/**
 * Holds data/alerts.yml and data/grafana.json to the metrics that there are, and each alert to what
 * makes it fire.
 */
import { afterAll, describe, expect, test } from 'bun:test'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { YAML } from 'bun'
import { FAMILIES } from '../../src/metrics/families.ts'
import { HAS_PROMTOOL, promtool } from '../support/metrics.ts'
import { ROOT } from '../support/program.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

const RULES = join(ROOT, 'data/alerts.yml')

type Rule = {
  alert: string
  expr: string
  for: string
  labels: { severity: string }
  annotations: { [name: string]: string }
}
const [{ rules }] = (YAML.parse(readFileSync(RULES, 'utf8')) as { groups: [{ rules: Rule[] }] })
  .groups

/** Series of a healthy server, in the notation of promtool: start, and step of each minute. */
const HEALTHY: { readonly [series: string]: string } = {
  'up{job="proxylist",instance="a"}': '1+0x60',
  'process_start_time_seconds{job="proxylist",instance="a"}': '1000+0x60',
  'proxylist_http_requests_total{instance="a",route="/api",status="200"}': '0+6000x60',
  'proxylist_http_requests_total{instance="a",route="/api",status="429",code="DEMO_LIMIT_REACHED"}':
    '0+6000x60',
  'proxylist_http_requests_total{instance="a",route="/api",status="503",code="DB_EXECUTE_FAILED"}':
    '0+0x60',
  'proxylist_http_request_duration_seconds_bucket{instance="a",route="/api",le="0.05"}':
    '0+11990x60',
  'proxylist_http_request_duration_seconds_bucket{instance="a",route="/api",le="0.25"}':
    '0+11995x60',
  'proxylist_http_request_duration_seconds_bucket{instance="a",route="/api",le="+Inf"}':
    '0+12000x60',
  'proxylist_attention{instance="a",reason="clock"}': '0+0x60',
  'proxylist_attention{instance="a",reason="key_expiring"}': '1+0x60',
  'proxylist_list_rows{instance="a"}': '1000+0x60',
  'proxylist_list_newest_check_age_seconds{instance="a"}': '60+0x60',
  'proxylist_feed_consecutive_failures{instance="a",source="/data"}': '0 1 2 1 0 0+0x60',
  'proxylist_database_up{instance="a",database="access.db"}': '1+0x60',
  'proxylist_database_failures_total{instance="a",database="access.db"}': '0 0 0 2 2+0x60',
  'proxylist_replication_lag_seconds{instance="a"}': '0.5+0x60',
  'proxylist_data_free_bytes{instance="a"}': '5e9+0x60',
  'proxylist_event_loop_lag_seconds_bucket{instance="a",le="0.025"}': '0+599x60',
  'proxylist_event_loop_lag_seconds_bucket{instance="a",le="0.25"}': '0+600x60',
  'proxylist_event_loop_lag_seconds_bucket{instance="a",le="+Inf"}': '0+600x60',
  'process_open_fds{job="proxylist",instance="a"}': '100+0x60',
  'process_max_fds{job="proxylist",instance="a"}': '1000+0x60',
}

/** Names of series of `HEALTHY` that a case changes. */
const SERVER = '{job="proxylist",instance="a"}'
const REQUESTS = 'proxylist_http_requests_total{instance="a",route="/api",status='
const DURATIONS = 'proxylist_http_request_duration_seconds_bucket{instance="a",route="/api",le='
const DATABASE = '{instance="a",database="access.db"}'
const FEED = 'proxylist_feed_consecutive_failures{instance="a",source="/data"}'
const LAG = 'proxylist_event_loop_lag_seconds_bucket{instance="a",le='

type AlertCase = readonly [
  alert: string,
  /** A series, and the values that take the place of healthy ones. */
  series: string,
  values: string,
  /** Minutes after which it has not fired yet, and has. */
  quietAt: number,
  firesAt: number,
  severity: 'page' | 'ticket',
  /** Its labels besides instance and severity. */
  labels?: { readonly [label: string]: string },
]
const JOB = { job: 'proxylist' }
const OF_ACCESS = { database: 'access.db' }

// biome-ignore format: one alert a row; formatted, each takes eight lines
const ALERTS: readonly AlertCase[] = [
  ['ProxylistDown', `up${SERVER}`, '1x9 0x60', 11, 12, 'page', JOB],
  ['ProxylistRestarts', `process_start_time_seconds${SERVER}`,
    '1000x9 1600 1660 1720 1720x50', 11, 13, 'page', JOB],
  ['ProxylistErrors', `${REQUESTS}"503",code="DB_EXECUTE_FAILED"}`, '0+130x60', 5, 6, 'page'],
  ['ProxylistSlow', `${DURATIONS}"0.05"}`, '0+11800x60', 10, 11, 'ticket'],
  ['ProxylistAttention', 'proxylist_attention{instance="a",reason="clock"}',
    '0x9 1x60', 19, 20, 'ticket', { reason: 'clock' }],
  ['ProxylistListEmpty', 'proxylist_list_rows{instance="a"}', '1000x9 0x60', 14, 15, 'page'],
  ['ProxylistListStale', 'proxylist_list_newest_check_age_seconds{instance="a"}',
    '0+60x60', 20, 21, 'page'],
  ['ProxylistFeedFailing', FEED, '0 1 2 3 4 5+0x60', 17, 18, 'ticket', { source: '/data' }],
  ['ProxylistDatabaseDown', `proxylist_database_up${DATABASE}`,
    '1x9 0x60', 10, 11, 'page', OF_ACCESS],
  ['ProxylistDatabaseFailures', `proxylist_database_failures_total${DATABASE}`,
    '0+1x60', 8, 10, 'ticket', OF_ACCESS],
  ['ProxylistCopiesOld', 'proxylist_replication_lag_seconds{instance="a"}',
    '0.5x9 60+60x50', 14, 15, 'ticket'],
  ['ProxylistDiskFull', 'proxylist_data_free_bytes{instance="a"}', '2e9-1e8x20', 15, 16, 'ticket'],
  ['ProxylistEventLoopLag', `${LAG}"0.025"}`, '0+500x60', 10, 11, 'ticket'],
  ['ProxylistFewDescriptors', `process_open_fds${SERVER}`, '100x9 900x60', 14, 15, 'ticket', JOB],
]

/** The names of series that a query reads. Prometheus makes `up` itself. */
const seriesIn = (query: string): string[] =>
  query.match(/\b(?:proxylist|process)_[a-z_]+\b/g) ?? []

/** The names of all series that the metrics have. */
const SERIES = new Set(
  FAMILIES.flatMap(({ name, type }) =>
    type === 'histogram' ? ['_bucket', '_sum', '_count'].map(end => name + end) : [name],
  ),
)

const labelsOf = (name: string): readonly string[] => {
  const family = FAMILIES.find(each => name === each.name || name.startsWith(`${each.name}_`))
  return [...(family?.labels ?? []), 'le', 'job', 'instance']
}

/** Expects that a query names series and labels that there are. */
function expectKnown(query: string): void {
  for (const name of seriesIn(query)) expect(SERIES).toContain(name)
  for (const [, name = '', matchers = ''] of query.matchAll(/\b([a-z_]+)\{([^}]*)\}/g)) {
    if (!SERIES.has(name)) continue
    for (const [, label = ''] of matchers.matchAll(/([a-z_]+)\s*(?:=~|!~|!=|=)/g)) {
      expect(labelsOf(name)).toContain(label)
    }
  }
}

describe('data/alerts.yml', () => {
  test.each(rules)('$alert waits, has a severity, and says what to do', rule => {
    expect(rule.alert).toMatch(/^Proxylist[A-Z][A-Za-z]+$/)
    expect(rule.for).toMatch(/^\d+m$/)
    expect(['page', 'ticket']).toContain(rule.labels.severity)
    expect(Object.keys(rule.annotations)).toEqual(['summary', 'description', 'action'])
  })

  test.each(rules)('$alert reads only series and labels that exist', ({ expr }) => {
    expectKnown(expr)
    expect(seriesIn(expr).length + Number(/\bup\b/.test(expr))).toBeGreaterThan(0)
  })

  test('has one case for each alert', () => {
    expect(ALERTS.map(([alert]) => alert)).toEqual(rules.map(({ alert }) => alert))
    for (const [, series] of ALERTS) expect(Object.keys(HEALTHY)).toContain(series)
  })

  test.if(HAS_PROMTOOL)('is accepted by Prometheus', async () => {
    expect(await promtool(['check', 'rules', RULES])).toBe('')
  })

  test.if(HAS_PROMTOOL)(
    'is quiet while all is well, also at the start; each alert fires alone and on time',
    async () => {
      const file = join(temporaryDirectory(), 'rules.yml') // JSON is YAML, too
      const none = { 0: [], 1: [], 6: [], 20: [], 60: [] }
      const tests = ALERTS.map(each => {
        const [alert, series, values, quietAt, firesAt, severity, labels = {}] = each
        const fired = { alertname: alert, alertstate: 'firing', instance: 'a', severity, ...labels }
        return testOf({ ...HEALTHY, [series]: values }, { [quietAt]: [], [firesAt]: [fired] })
      })
      const all = { rule_files: [RULES], tests: [testOf(HEALTHY, none), ...tests] }
      writeFileSync(file, JSON.stringify(all))
      expect(await promtool(['test', 'rules', file])).toBe('')
    },
  )
})

/** A test of promtool: series, and what ALERTS has of them after so many minutes. */
function testOf(
  series: { readonly [series: string]: string },
  firing: { readonly [minute: number]: readonly { [label: string]: string }[] },
) {
  const samples = (labels: { [label: string]: string }) =>
    `ALERTS{${Object.entries(labels).map(([name, value]) => `${name}="${value}"`)}}`
  return {
    interval: '1m',
    input_series: Object.entries(series).map(([name, values]) => ({ series: name, values })),
    promql_expr_test: Object.entries(firing).map(([minute, alerts]) => ({
      expr: 'ALERTS{alertstate="firing"}',
      eval_time: `${minute}m`,
      exp_samples: alerts.map(labels => ({ labels: samples(labels), value: 1 })),
    })),
  }
}

type Target = { expr: string; refId: string; datasource: unknown }
type Panel = {
  id: number
  type: string
  title: string
  gridPos: { x: number; y: number; w: number; h: number }
  targets?: Target[]
}
type Dashboard = {
  panels: Panel[]
  schemaVersion: number
  templating: { list: { name: string; type: string }[] }
}

describe('data/grafana.json', () => {
  const dashboard: Dashboard = JSON.parse(readFileSync(join(ROOT, 'data/grafana.json'), 'utf8'))
  const targets = dashboard.panels.flatMap(({ title, targets: own = [] }) =>
    own.map(target => ({ title, ...target })),
  )
  /** A query as Prometheus gets it. */
  const filled = (expr: string): string =>
    expr
      .replaceAll('$__rate_interval', '5m')
      .replaceAll('$job', 'proxylist')
      .replaceAll('$instance', '.*')

  test.each(targets)('$title: $expr', ({ expr, datasource }) => {
    expect(datasource).toEqual({ type: 'prometheus', uid: `\${datasource}` })
    expectKnown(expr)
    const selectors = expr.match(/\{[^}]*\}/g) ?? []
    expect(selectors).not.toBeEmpty()
    for (const selector of selectors)
      expect(selector).toMatch(/job=~"\$job",instance=~"\$instance"/)
  })

  test.if(HAS_PROMTOOL)('has queries that Prometheus accepts', async () => {
    const file = join(temporaryDirectory(), 'queries.yml')
    const recorded = targets.map(({ expr }, i) => ({ record: `query_${i}`, expr: filled(expr) }))
    writeFileSync(file, JSON.stringify({ groups: [{ name: 'queries', rules: recorded }] }))
    expect(await promtool(['check', 'rules', file])).toBe('')
  })
})
