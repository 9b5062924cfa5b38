/**
 * Holds data/alerts.yml and data/grafana.json to the metrics that there are, and each alert to what
 * makes it fire.
 */
import { afterAll, describe, expect, test } from 'bun:test'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { YAML } from 'bun'
import { FAMILIES } from '../../src/metrics/families.ts'
import { ROOT } from '../support/program.ts'
import { HAS_PROMTOOL, promtool } from '../support/promtool.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'
import { ALERTS, HEALTHY } from './alerts.cases.ts'

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

  test.each(rules)('$alert reads series and labels that there are', ({ expr }) => {
    expectKnown(expr)
    expect(seriesIn(expr).length + Number(/\bup\b/.test(expr))).toBeGreaterThan(0)
  })

  test('has a case for each alert, and no other', () => {
    expect(ALERTS.map(({ alert }) => alert)).toEqual(rules.map(({ alert }) => alert))
  })

  test.if(HAS_PROMTOOL)('is what Prometheus accepts', async () => {
    expect(await promtool(['check', 'rules', RULES])).toBe('')
  })

  /** Evaluates the rules over series; `firing` by minute is what ALERTS has then. */
  async function evaluate(
    series: { readonly [series: string]: string },
    firing: { readonly [minute: number]: readonly { [label: string]: string }[] },
  ): Promise<string> {
    const file = join(temporaryDirectory(), 'rules.yml') // JSON is YAML, too
    const samples = (labels: { [label: string]: string }) =>
      `ALERTS{${Object.entries(labels).map(([name, value]) => `${name}="${value}"`)}}`
    writeFileSync(
      file,
      JSON.stringify({
        rule_files: [RULES],
        tests: [
          {
            interval: '1m',
            input_series: Object.entries(series).map(([name, values]) => ({
              series: name,
              values,
            })),
            promql_expr_test: Object.entries(firing).map(([minute, alerts]) => ({
              expr: 'ALERTS{alertstate="firing"}',
              eval_time: `${minute}m`,
              exp_samples: alerts.map(labels => ({ labels: samples(labels), value: 1 })),
            })),
          },
        ],
      }),
    )
    return promtool(['test', 'rules', file])
  }

  test.if(HAS_PROMTOOL)('is quiet while all is well, also at the start', async () => {
    expect(await evaluate(HEALTHY, { 0: [], 1: [], 6: [], 20: [], 60: [] })).toBe('')
  })

  test.if(HAS_PROMTOOL).each(ALERTS)(
    '$alert fires when it should, not before, and alone',
    async ({ alert, series, quietAt, firesAt, labels = {}, severity }) => {
      for (const name of Object.keys(series)) expect(Object.keys(HEALTHY)).toContain(name)
      const fired = { alertname: alert, alertstate: 'firing', instance: 'a', severity, ...labels }
      expect(await evaluate({ ...HEALTHY, ...series }, { [quietAt]: [], [firesAt]: [fired] })).toBe(
        '',
      )
    },
  )
})

type Target = { expr: string; refId: string; legendFormat: string; datasource: unknown }
type Panel = {
  id: number
  type: string
  title: string
  datasource?: unknown
  gridPos: { x: number; y: number; w: number; h: number }
  targets?: Target[]
}
type Dashboard = {
  title: string
  panels: Panel[]
  schemaVersion: number
  templating: { list: { name: string; type: string; query: string | { query: string } }[] }
}

describe('data/grafana.json', () => {
  const dashboard: Dashboard = JSON.parse(readFileSync(join(ROOT, 'data/grafana.json'), 'utf8'))
  const charts = dashboard.panels.filter(({ type }) => type !== 'row')
  const targets = charts.flatMap(({ title, targets: own = [] }) =>
    own.map(target => ({ title, ...target })),
  )
  /** A query as Prometheus gets it. */
  const filled = (expr: string): string =>
    expr
      .replaceAll('$__rate_interval', '5m')
      .replaceAll('$job', 'proxylist')
      .replaceAll('$instance', '.*')

  test('lets one choose a data source, a job and servers', () => {
    expect(dashboard.templating.list.map(({ name, type }) => `${name} ${type}`)).toEqual([
      'datasource datasource',
      'job query',
      'instance query',
    ])
    expect(dashboard.schemaVersion).toBeGreaterThanOrEqual(39) // Grafana 10
  })

  test.each(targets)('$title: $expr', ({ expr, datasource }) => {
    expect(datasource).toEqual({ type: 'prometheus', uid: `\${datasource}` })
    expectKnown(expr)
    const selectors = expr.match(/\{[^}]*\}/g) ?? []
    expect(selectors).not.toBeEmpty()
    for (const selector of selectors)
      expect(selector).toMatch(/job=~"\$job",instance=~"\$instance"/)
  })

  test('shows every metric', () => {
    const shown = targets.map(({ expr }) => expr).join(' ')
    const missing = FAMILIES.filter(({ name }) => !shown.includes(name)).map(({ name }) => name)
    expect(missing).toEqual([])
  })

  test('has panels with ids and queries of their own, of which none lies on another', () => {
    const { panels } = dashboard
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length)
    for (const { title, targets: own = [] } of charts) {
      expect(title).not.toBe('')
      expect(own).not.toBeEmpty()
      expect(new Set(own.map(({ refId }) => refId)).size).toBe(own.length)
    }
    const taken = new Map<string, string>()
    for (const { title, gridPos: at } of panels) {
      expect(at.x + at.w).toBeLessThanOrEqual(24)
      for (let x = at.x; x < at.x + at.w; x += 1) {
        for (let y = at.y; y < at.y + at.h; y += 1) {
          expect([title, taken.get(`${x} ${y}`)]).toEqual([title, undefined])
          taken.set(`${x} ${y}`, title)
        }
      }
    }
  })

  test.if(HAS_PROMTOOL)('has queries that Prometheus accepts', async () => {
    const file = join(temporaryDirectory(), 'queries.yml')
    const recorded = targets.map(({ expr }, i) => ({ record: `query_${i}`, expr: filled(expr) }))
    writeFileSync(file, JSON.stringify({ groups: [{ name: 'queries', rules: recorded }] }))
    expect(await promtool(['check', 'rules', file])).toBe('')
  })
})
