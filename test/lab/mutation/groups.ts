/** Owns what is mutated, and for each source the tests that must fail, the most specific first. */

const LIMITS = [
  'access/access',
  'access/rate-limit',
  'sqlite/access/usage',
  'access/key',
  'api/handler',
]
const QUERY = ['api/params', 'api/query', 'api/handler']
const INGEST = ['import/import', 'import/row', 'import/formats/formats']

/** The groups; each gives the tests of its sources (`access/key` is test/access/key.test.ts). */
export const GROUPS: {
  readonly [group: string]: { readonly [source: string]: readonly string[] }
} = {
  limits: {
    'src/access/rate-limit.ts': LIMITS,
    'src/access/access.ts': LIMITS,
    'src/sqlite/access/usage.ts': LIMITS,
  },
  query: {
    'src/api/params.ts': QUERY,
    'src/api/query.ts': QUERY,
  },
  ingest: {
    'src/import/import.ts': INGEST,
    'src/import/formats/formats.ts': INGEST,
    'src/import/formats/lines.ts': INGEST,
    'src/import/formats/txt.ts': INGEST,
    'src/import/formats/csv.ts': INGEST,
    'src/import/formats/ndjson.ts': INGEST,
    'src/import/formats/json.ts': INGEST,
    'src/import/row.ts': INGEST,
    'src/import/sink.ts': INGEST,
    'src/sqlite/proxies/import.ts': ['sqlite/proxies/import'],
  },
}
