/** Owns what is mutated, and the tests that must notice: quickest and most telling first. */

export type Group = { sources: readonly string[]; tests: readonly string[] }

const ingest = ['ingest', 'importer']
export const GROUPS: { readonly [name: string]: Group } = {
  limits: {
    sources: ['src/limits.ts', 'src/access.ts', 'src/sqlite/usage.ts'],
    tests: ['access', 'limits', 'usage', 'key', 'api'],
  },
  query: {
    sources: ['src/query.ts', 'src/question.ts'],
    tests: ['query', 'question', 'api'],
  },
  ingest: {
    sources: [
      ...['formats', 'import', 'json', 'row', 'sink'].map(name => `src/ingest/${name}.ts`),
      'src/sqlite/importer.ts',
    ],
    tests: ingest,
  },
}
