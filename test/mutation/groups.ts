/** Owns what is mutated, and for each source the tests that must notice, the most telling first. */

const LIMITS = ['access', 'limits', 'usage', 'key', 'api']
const QUERY = ['query', 'question', 'api']
const INGEST = ['ingest']

/** The groups; each gives the tests of its sources (`access` is test/access.test.ts). */
export const GROUPS: {
  readonly [group: string]: { readonly [source: string]: readonly string[] }
} = {
  limits: {
    'src/limits.ts': LIMITS,
    'src/access.ts': LIMITS,
    'src/sqlite/usage.ts': LIMITS,
  },
  query: {
    'src/query.ts': QUERY,
    'src/question.ts': QUERY,
  },
  ingest: {
    'src/ingest/formats.ts': INGEST,
    'src/ingest/import.ts': INGEST,
    'src/ingest/json.ts': INGEST,
    'src/ingest/row.ts': INGEST,
    'src/ingest/sink.ts': INGEST,
    'src/sqlite/importer.ts': ['importer'],
  },
}
