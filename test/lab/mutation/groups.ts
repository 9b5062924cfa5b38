/** Owns what is mutated, and for each source the tests that must fail, the most specific first. */

const LIMITS = [
  'access/access',
  'access/rate-limit',
  'access/network-quota',
  'access/entitlements',
  'sqlite/access/usage',
  'sqlite/access/admission-log',
  'sqlite/access/servers',
  'sqlite/access/store',
  'access/key',
  'api/refusals',
  'api/handler',
]
const LOG = [
  'sqlite/access/admission-log',
  'sqlite/access/usage',
  'access/access',
  'sqlite/access/servers',
]
const QUERY = ['api/params', 'api/query', 'http/credentials', 'lib/query-string', 'api/handler']
const IMPORT = ['import/import', 'import/row', 'import/formats/formats']

/** The groups; each gives the tests of its sources (`access/key` is test/access/key.test.ts). */
export const GROUPS: {
  readonly [group: string]: { readonly [source: string]: readonly string[] }
} = {
  limits: {
    'src/access/rate-limit.ts': LIMITS,
    'src/access/network-quota.ts': LIMITS,
    'src/access/entitlements.ts': LIMITS,
    'src/access/access.ts': LIMITS,
    'src/api/refusals.ts': LIMITS,
    'src/sqlite/access/usage.ts': LIMITS,
    'src/sqlite/access/admission-log.ts': LOG,
    'src/sqlite/access/snapshot.ts': LOG,
    'src/sqlite/access/subjects.ts': LOG,
  },
  query: {
    'src/api/params.ts': QUERY,
    'src/api/query.ts': QUERY,
    'src/http/credentials.ts': QUERY,
    'src/lib/query-string.ts': QUERY,
  },
  import: {
    'src/import/import.ts': IMPORT,
    'src/import/formats/formats.ts': IMPORT,
    'src/import/formats/lines.ts': IMPORT,
    'src/import/formats/txt.ts': IMPORT,
    'src/import/formats/csv.ts': IMPORT,
    'src/import/formats/ndjson.ts': IMPORT,
    'src/import/formats/json.ts': IMPORT,
    'src/import/row.ts': IMPORT,
    'src/import/sink.ts': IMPORT,
    'src/sqlite/proxies/import.ts': ['sqlite/proxies/import', 'sqlite/integrity/checksum'],
  },
}
