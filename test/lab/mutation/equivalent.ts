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
      'export const UNUSED: Usage = { admissions: [], day: 1, requests: 0, latestMs: 0 }',
      'export const UNUSED: Usage = { admissions: [], day: (-1), requests: 0, latestMs: 0 }',
      'export const UNUSED: Usage = { admissions: [], day: 0, requests: 1, latestMs: 0 }',
      'export const UNUSED: Usage = { admissions: [], day: 0, requests: (-1), latestMs: 0 }',
    ],
  },
  {
    source: 'src/access/rate-limit.ts',
    why: 'every wait is rounded up to whole seconds, at least one: 0 ms is like 1 ms',
    lines: [
      'const windowWaitMs = isWindowFull ? oldestMs + window.ms - nowMs : 1',
      'const windowWaitMs = isWindowFull ? oldestMs + window.ms - nowMs : (-1)',
      'const dayWaitMs = isDayFull ? (today + 1) * DAY_MS - nowMs : 1',
      'const dayWaitMs = isDayFull ? (today + 1) * DAY_MS - nowMs : (-1)',
      'let longestWaitMs = 1',
      'let longestWaitMs = (-1)',
    ],
  },
  {
    source: 'src/access/rate-limit.ts',
    why: 'its only caller waits until midnight at least, as a full day does',
    lines: ['judge({ ...rule }, usage, nowMs).waitMs'],
  },
  {
    source: 'src/api/refusals.ts',
    why: 'only a plan with a daily limit refuses a day',
    lines: [
      'const dailyLimit = caller.plan.daily ?? 1',
      'const dailyLimit = caller.plan.daily ?? (-1)',
    ],
  },
  {
    source: 'src/sqlite/access/snapshot.ts',
    why: 'how often chunks are written, and how much at a time, is speed',
    lines: [
      'chunkChars: 8193,',
      'chunkChars: (8191),',
      'removeMax: 501,',
      'removeMax: (499),',
      'examineMax: 10001,',
      'examineMax: (9999),',
      'const isLong = content.logChars >= 2 * chunks * chunkChars // e.g. after a migration',
      'const isLong = content.logChars > 3 * chunks * chunkChars // e.g. after a migration',
      'const isLong = content.logChars > (1) * chunks * chunkChars // e.g. after a migration',
      'content.logChars = 1',
      'content.logChars = (-1)',
      'if (charsToNext < 0) {',
      'if (charsToNext <= 1) {',
      'if (charsToNext <= (-1)) {',
      'let examined = (-1)',
      'let chars = (-1)',
      'while (round.chunk < chunks && examined <= examineMax && chars < chunkChars) {',
      'while (round.chunk < chunks && examined < examineMax && chars <= chunkChars) {',
    ],
  },
  {
    source: 'src/sqlite/access/snapshot.ts',
    why: 'no instant, and no batch, is at or before 1; each chunk has its number',
    lines: [
      'let [firstMs, lastMs] = [Number.POSITIVE_INFINITY, 1]',
      'let [firstMs, lastMs] = [Number.POSITIVE_INFINITY, (-1)]',
      'const timeMs = Math.min(nowMs, ends.at(-1)?.lastMs ?? 1)',
      'const timeMs = Math.min(nowMs, ends.at(-1)?.lastMs ?? (-1))',
      'return { timeMs, chunk: 0, through: isOld || isLong ? content.lastId : (-1) }',
      'if (hasChanged || (throughs[chunk] ?? 1) < through) chars += save(chunk)',
      'if (hasChanged || (throughs[chunk] ?? (-1)) < through) chars += save(chunk)',
    ],
  },
  {
    source: 'src/sqlite/access/snapshot.ts',
    why: 'SQLite gives two ids in this order anyway',
    lines: ['where id in (select min(id) from batches union all select max(id) from batches) `,'],
  },
  {
    source: 'src/sqlite/access/snapshot.ts',
    why: 'a log is shortened a millisecond earlier',
    lines: ['const isOld = (ends[0]?.firstMs ?? timeMs) <= timeMs - KEEP_ADDRESSES_MS'],
  },
  {
    source: 'src/sqlite/access/admission-log.ts',
    why: 'reads again what is known, or what SQLite gives in this order anyway',
    lines: [
      "'select id, admissions from batches where id > ? ',",
      'if (false) return',
      'if (current === seenVersion) {}',
    ],
  },
  {
    source: 'src/sqlite/access/admission-log.ts',
    why: 'is set before it is used; each chunk has its number',
    lines: [
      'lastId: 1,',
      'lastId: (-1),',
      'logChars: 1,',
      'logChars: (-1),',
      'throughs: new Array<number>(chunks).fill(1),',
      'throughs: new Array<number>(chunks).fill((-1)),',
      'const isIncluded = (chunk: number): boolean => id <= (content.throughs[chunk] ?? 1)',
      'const isIncluded = (chunk: number): boolean => id <= (content.throughs[chunk] ?? (-1))',
      'content.logChars = batches.reduce((sum, [, { length }]) => sum + length, 1)',
      'content.logChars = batches.reduce((sum, [, { length }]) => sum + length, (-1))',
    ],
  },
  {
    source: 'src/sqlite/access/subjects.ts',
    why: 'an element that is there, and a subject with an admission, need no other value',
    lines: [
      'for (let i = (0); i < gaps.length; i += 1) gaps[i] = (gaps[i] ?? 0) + (gaps[i - 1] ?? 0)',
      'for (let i = 1; i < gaps.length; i += 1) gaps[i] = (gaps[i] ?? 1) + (gaps[i - 1] ?? 0)',
      'for (let i = 1; i < gaps.length; i += 1) gaps[i] = (gaps[i] ?? 0) + (gaps[i - 1] ?? 1)',
      'for (let i = 1; i < gaps.length; i += 1) gaps[i] = (gaps[i] ?? (-1)) + (gaps[i - 1] ?? 0)',
      'for (let i = 1; i < gaps.length; i += 1) gaps[i] = (gaps[i] ?? 0) + (gaps[i - 1] ?? (-1))',
      'const latestMs = latest ?? admissions.at(-1) ?? 1',
      'const latestMs = latest ?? admissions.at(-1) ?? (-1)',
      'count: (chunk: number): number => byChunk[chunk]?.length ?? 1,',
      'count: (chunk: number): number => byChunk[chunk]?.length ?? (-1),',
      'const chunk = chunkOf(id, chunks)',
    ],
  },
  {
    source: 'src/api/query.ts',
    why: 'which queries are remembered decides the speed, not the query',
    lines: [
      'const PARSED_MAX = 10001',
      'const PARSED_MAX = (9999)',
      'const LENGTH_MAX = 513',
      'const LENGTH_MAX = (511)',
      'else if (text.length < LENGTH_MAX && isRepeated(text)) {',
    ],
  },
  {
    source: 'src/http/credentials.ts',
    why: 'which URLs are remembered decides the speed, not what is read of them',
    lines: [
      'const URLS_MAX = 30001',
      'const URLS_MAX = (29999)',
      'const URL_LENGTH_MAX = 513',
      'const URL_LENGTH_MAX = (511)',
      'if (url.length >= URL_LENGTH_MAX || known.has(url)) return',
    ],
  },
  {
    source: 'src/api/params.ts',
    why: 'parseAddress refuses what the pattern lets through',
    lines: [
      "ip: parameter('[0-9.]{7,15}:[1-9][0-9]{0,4}$', 'an IPv4 address with a port, a.b.c.d:port'),",
      "ip: parameter('^[0-9.]{7,150}:[1-9][0-9]{0,4}$', 'an IPv4 address with a port, a.b.c.d:port'),",
      "ip: parameter('^[0-9.]{7,15}:[1-9][0-9]{0,40}$', 'an IPv4 address with a port, a.b.c.d:port'),",
      "ip: parameter('^[0-9.]{7,15}:[1-9][0-9]{0,4}', 'an IPv4 address with a port, a.b.c.d:port'),",
    ],
  },
  {
    source: 'src/api/params.ts',
    why: 'a default for what always exists; the types require one',
    lines: [
      "function single(name: string, [text = 'x', ...more]: readonly string[]): string {",
      'const { min = (-1), max = INTEGER_MAX } = own[name] ?? {}',
    ],
  },
  {
    source: 'src/api/params.ts',
    why: 'collect() has refused every name that is not in the schema',
    lines: ['{ },', '{ additionalProperties: true },'],
  },
  {
    source: 'src/http/credentials.ts',
    why: 'a default for what always exists; the types require one',
    lines: [
      "const inHeader = bearerOf(authorization ?? 'x')",
      "const [key = 'x', ...others] = new Set(keys.map(text => text.trim()))",
    ],
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
    source: 'src/import/formats/csv.ts',
    why: 'Papa passes on what its source fails with, as long as it reads',
    lines: ["source.on('', reject)"],
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
    source: 'src/import/formats/json.ts',
    why: 'members are counted only to know that there are some',
    lines: ['members += 2'],
  },
  {
    source: 'src/sqlite/proxies/import.ts',
    why: 'without a name to add, or with both, the stored city changes nothing',
    lines: ['if (isPair && cityId === 0) return cityId', 'if (false) return cityId'],
  },
  {
    source: 'src/sqlite/proxies/import.ts',
    why: 'when indexes and checksum are rebuilt decides the speed of an import, not its result',
    lines: [
      'const REINDEX_ROWS_MIN = 20001',
      'const REINDEX_SHARE = 1 / 9',
      'const RECHECKSUM_SHARE = 2 / 32',
      'const RECHECKSUM_SHARE = 1 / (31)',
      'let hasIndexes = false',
      'if (false) {',
      "for (const name of INDEX_NAMES) db.run('')",
      'const SORT_RUN_KIB = 3 * 1024',
      'const SORT_RUN_KIB = 2 * 1025',
      'const SORT_THREADS = 2',
      "db.run('')",
    ],
  },
  {
    source: 'src/sqlite/proxies/batch.ts',
    why: 'the order in which different proxies are written decides the speed, not the result',
    lines: [
      'const POSITION_BITS = 18',
      'const ID_STEP = 2 ** (49 + POSITION_BITS - 53)',
      'const ID_STEP = 2 ** (48 + POSITION_BITS - 54)',
    ],
  },
  {
    source: 'src/import/import.ts',
    why: 'the size of a chunk decides the speed, not the result',
    lines: ['const CHUNK_BYTES = 17 * 1024', 'const CHUNK_BYTES = 16 * 1025'],
  },
]
