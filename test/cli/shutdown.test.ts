/**
 * What becomes of a signal while a command works: it is seen between two steps of long work, and one
 * that comes too late changes neither the outcome nor what is said of it.
 */
import { Database } from 'bun:sqlite'
import { afterAll, expect, spyOn, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Command } from '../../src/cli/command.ts'
import { importCommand } from '../../src/cli/commands/import.ts'
import { listCommand } from '../../src/cli/commands/list.ts'
import { interruptible } from '../../src/cli/shutdown.ts'
import { readSettings } from '../../src/config/settings.ts'
import { importSources } from '../../src/import/import.ts'
import { PROXY_FILE } from '../../src/sqlite/data-directory.ts'
import { dataDirectory, T0 } from '../support/fixtures.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

type Flags = { [flag: string]: string | boolean }
/** Runs a command in this process. */
const run = async (
  command: Command,
  flags: Flags,
  args: readonly string[],
  { signal }: { signal: AbortSignal },
): Promise<void> =>
  command.run({
    settings: readSettings(command.settings, flags, {}),
    isGiven: () => true,
    args,
    clock: () => T0,
    signal,
  })

/** The rows of a list that another process sees. */
function rowsIn(dir: string): number {
  const db = new Database(join(dir, PROXY_FILE), { readonly: true })
  try {
    return db.query<{ rows: number }, []>('select count(*) as rows from proxies').get()?.rows ?? 0
  } finally {
    db.close()
  }
}

const MANY = Array.from({ length: 5000 }, (_, i) => ({
  ip: `10.0.${i >> 8}.${i & 255}:80`,
  type: 'http',
}))

test('an import that a signal reaches during its commit succeeds', async () => {
  const dir = dataDirectory(MANY.slice(0, 3))
  const file = join(temporaryDirectory(), 'a.txt')
  writeFileSync(file, 'http://192.0.2.1:80\nhttp://192.0.2.2:80\n')
  const controller = new AbortController()
  const { run: runSql } = Database.prototype
  using _ = spyOn(Database.prototype, 'run').mockImplementation(function (this: Database, ...sql) {
    const changes = runSql.apply(this, sql)
    if (sql[0] === 'commit') controller.abort(new Error('interrupted; nothing was imported'))
    return changes
  })
  const { signal } = controller
  await run(importCommand, { data: dir, replace: true }, [file], { signal })
  expect(signal.aborted).toBeTrue()
  expect(rowsIn(dir)).toBe(2)
})

test('a command that is done when a signal arrives ends as usual', async () => {
  const done = interruptible('nothing was changed', async signal => {
    process.emit('SIGINT')
    expect(signal.aborted).toBeTrue()
    return 'done'
  })
  expect(await done).toBe('done')
})

test('a signal with the last bytes of an import stops it before the commit', async () => {
  const controller = new AbortController()
  async function* bytes() {
    yield new TextEncoder().encode('http://192.0.2.1:80\n')
    setImmediate(() => controller.abort(new Error('interrupted')))
  }
  const options = {
    ...({ format: 'auto', strict: false, signal: controller.signal } as const),
    defaults: { type: undefined, nowMs: T0, provider: 'the service' },
  }
  const read = importSources([{ name: 'a', bytes: bytes() }], options, () => {}, {})
  expect(read).rejects.toThrow('interrupted')
  await read.catch(() => {})
})

test('a signal stops a long list between two pages', async () => {
  const controller = new AbortController()
  setImmediate(() => controller.abort(new Error('interrupted')))
  const listed = run(listCommand, { data: dataDirectory(MANY) }, ['get=json'], controller)
  expect(listed).rejects.toThrow('interrupted')
  await listed.catch(() => {})
})
