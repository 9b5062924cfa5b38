/**
 * What imports make of files and rows, and that what is listed can be imported again: status, stdout and
 * stderr, of the program from source or of the binary.
 */
import { afterAll, describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import { openList } from '../../src/sqlite/stores.ts'
import { fillList } from '../support/fixtures.ts'
import { startProgram } from '../support/program.ts'
import { cleanUp } from '../support/temporary.ts'
import { directoryOf, take, testTranscripts } from '../support/transcript.ts'
import { counts, FORMATS, FOUND, GUARDS, ROWS, WHOLE_LISTS } from './import.cases.ts'
import { MIXED } from './list.cases.ts'

afterAll(cleanUp)

testTranscripts('import reads every format', FORMATS)
testTranscripts('import takes rows one by one', ROWS)
testTranscripts('import takes a list whole', WHOLE_LISTS)
testTranscripts('import --replace is guarded', GUARDS)
testTranscripts('import takes lists as they are found', FOUND)

describe('what is listed as records can be imported and listed again, byte for byte', () => {
  const shapes = ['', '&format=object', '&wrap=1', '&wrap=1&format=object']
  const documents = shapes.flatMap(shape =>
    ['', '&pretty=0'].map(pretty => `json${shape}${pretty}`),
  )
  const forms = [...documents, 'csv', 'ndjson', 'csv.file&sort=ping', 'ndjson.file&sort=works']
  test.each(forms.flatMap(form => [form, `${form}&split_ip=1`]))('get=%s', async form => {
    const cwd = directoryOf()
    const list = openList(join(cwd, 'data'))
    fillList(list, MIXED)
    list.close()
    const query = `time=999999999999999&get=${form}`
    const first = await take(cwd, { args: ['list', query], stdout: /Омск/ })
    const copy = ['--data', 'copy']
    const imported = counts({ read: 4, added: 4 })
    const args = ['import', '-', '--json', ...copy]
    await take(cwd, { args, stdin: first.stdout, stdout: imported })
    await take(cwd, { args: ['list', query, ...copy], stdout: first.stdout })
    const unchanged = counts({ read: 4, unchanged: 4 })
    await take(cwd, { args: 'import - --json', stdin: first.stdout, stdout: unchanged })
  })
})

test.each([[], ['--replace']])(
  'an import killed in the middle leaves the list as it was %p',
  async (...more) => {
    const cwd = directoryOf()
    const data = join(cwd, 'data')
    const before = '192.0.2.1:80\n'
    await take(cwd, { args: 'import -', stdin: `http://${before}`, stderr: /added 1/ })
    await using running = startProgram(['import', '-', '--format', 'txt', '--data', data, ...more])
    const rows = Array.from({ length: 60_000 }, (_, i) => `http://10.0.${i >> 8}.${i & 255}:80\n`)
    running.stdin.write(`${rows.join('')}halfway\n`)
    await running.stdin.flush()
    await running.says(/:60001: ip/)
    running.kill('SIGKILL')
    expect(await running.ended).not.toBe(0)
    await take(cwd, { args: 'list time=999999999', stdout: before })
    const counted = counts({ read: 1, unchanged: 1 })
    await take(cwd, { args: 'import - --json', stdin: `http://${before}`, stdout: counted })
  },
)
