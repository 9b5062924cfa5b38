/**
 * Owns the mutants that behave as the program does, so that no test can fail: each with its reason.
 * A mutant is identified by its source and its mutated line. They are not counted.
 */
type Equivalent = { source: string; why: string; lines: readonly string[] }

export const EQUIVALENT: readonly Equivalent[] = [
  {
    source: 'src/access/rate-limit.ts',
    why: 'a day in 1970 without requests is not today',
    lines: [
      'export const NOTHING: Usage = { admissions: [], day: 1, requests: 0 }',
      'export const NOTHING: Usage = { admissions: [], day: (-1), requests: 0 }',
      'export const NOTHING: Usage = { admissions: [], day: 0, requests: 1 }',
      'export const NOTHING: Usage = { admissions: [], day: 0, requests: (-1) }',
    ],
  },
  {
    source: 'src/access/rate-limit.ts',
    why: 'every wait is rounded up to whole seconds, at least one: 0 ms is like 1 ms',
    lines: [
      'const windowWaitMs = windowFull ? oldestMs + window.ms - nowMs : 1',
      'const windowWaitMs = windowFull ? oldestMs + window.ms - nowMs : (-1)',
      'const dayWaitMs = dayFull ? (today + 1) * DAY_MS - nowMs : 1',
      'const dayWaitMs = dayFull ? (today + 1) * DAY_MS - nowMs : (-1)',
      'const verdict: Verdict = { refused, retryAfterSeconds: (0), gauges: [], atMs: nowMs }',
    ],
  },
  {
    source: 'src/access/rate-limit.ts',
    why: 'its only caller waits until midnight at least, as a full day does',
    lines: ['judge({ ...meter }, store.read(meter.subject) ?? NOTHING, nowMs).waitMs'],
  },
  {
    source: 'src/access/access.ts',
    why: 'only a plan with a daily limit refuses a day, and every regular key has a limit rule',
    lines: [
      'const dailyLimit = caller.plan.daily ?? 1',
      'const dailyLimit = caller.plan.daily ?? (-1)',
      'const burstWaitMs = meter ? windowWaitMs(store, meter, nowMs) : 1',
      'const burstWaitMs = meter ? windowWaitMs(store, meter, nowMs) : (-1)',
    ],
  },
  {
    source: 'src/sqlite/access/usage.ts',
    why: 'reads again what is known, or what SQLite gives in this order anyway',
    lines: [
      "'select id, subject, at, requests, kept from admissions where id > ? ',",
      'if (false) return',
      'if (current === seenVersion) {}',
    ],
  },
  {
    source: 'src/api/params.ts',
    why: 'parseAddress refuses what the pattern lets through',
    lines: [
      "ip: parameter('[0-9.]{7,15}:[0-9]{1,5}$', 'an IPv4 address with a port, a.b.c.d:port'),",
      "ip: parameter('^[0-9.]{7,150}:[0-9]{1,5}$', 'an IPv4 address with a port, a.b.c.d:port'),",
      "ip: parameter('^[0-9.]{7,15}:[0-9]{1,50}$', 'an IPv4 address with a port, a.b.c.d:port'),",
      "ip: parameter('^[0-9.]{7,15}:[0-9]{1,5}', 'an IPv4 address with a port, a.b.c.d:port'),",
    ],
  },
  {
    source: 'src/api/params.ts',
    why: 'a default for what always exists; the types require one',
    lines: [
      "const inHeader = bearerOf(authorization ?? 'x')",
      "const [key = 'x', ...others] = new Set(keys.map(text => text.trim()))",
      "function single(name: string, [text = 'x', ...more]: readonly string[]): string {",
      'const { min = (-1), max = INTEGER_MAX } = own[name] ?? {}',
      "const [kind, file] = (values.get ?? '').split('.')",
    ],
  },
  {
    source: 'src/api/params.ts',
    why: 'collect() has refused every name that is not in the schema',
    lines: ['{ },', '{ additionalProperties: true },'],
  },
  {
    source: 'src/import/formats/txt.ts',
    why: 'a default for what is always there',
    lines: ["const [, type, ip = 'x'] = /^(?:([^:/]*):\\/\\/)?(.*?)\\/?$/s.exec(entry) ?? []"],
  },
  {
    source: 'src/import/formats/csv.ts',
    why: 'a default for what is always there, or a line that is not read',
    lines: [
      "const firstLine = head.split('\\n', 2)[0] ?? ''",
      "const firstLine = head.split('\\n', 1)[0] ?? 'x'",
    ],
  },
  {
    source: 'src/import/formats/ndjson.ts',
    why: 'a blank line is no record either',
    lines: [
      "const lines = head.split('\\n')",
      "const lines = head.split('\\n').filter(line => line !== '')",
      "const lines = head.split('\\n').filter(line => line.trim() !== 'x')",
    ],
  },
  {
    source: 'src/import/formats/json.ts',
    why: 'the end of a value lies after its start, or is -1',
    lines: ['if (end <= 0) break'],
  },
  {
    source: 'src/sqlite/proxies/import.ts',
    why: 'when indexes and checksum are rebuilt decides the speed of an import, not its result',
    lines: [
      'const REINDEX_ROWS_MIN = 20001',
      'const REINDEX_SHARE = 1 / 5',
      'const REDIGEST_SHARE = 2 / 32',
      'const REDIGEST_SHARE = 1 / (31)',
      'let isDigested = false',
      'if (false) {',
      "for (const name of INDEX_NAMES) db.run('')",
    ],
  },
]
