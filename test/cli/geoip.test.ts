/** Places from `--geoip` on the command line (contract G2): at import, in feeds, and for the list as it is. */
import { afterAll, describe, expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { openList } from '../../src/sqlite/stores.ts'
import { cityRecord, mmdb } from '../support/mmdb.ts'
import { proxylist, startProgram } from '../support/program.ts'
import { cleanUp } from '../support/temporary.ts'
import { directoryOf, take } from '../support/transcript.ts'

afterAll(cleanUp)

const ROWS =
  'ip,type,country,city,city_en,ping,works\n' +
  '192.0.2.1:80,http,,,,0.5,90\n192.0.2.2:80,http,de,Ульм,Ulm,,\n198.51.100.1:80,http,,,,,\n'
const ALL = 'get=json&fields=ip,country,city,ping,works&pretty=0&time=999999999'

/** A directory with rows and databases. */
function directory(): string {
  const cwd = directoryOf({ 'a.csv': ROWS, 'empty.mmdb': '', 'none.txt': 'http://192.0.2.1:80' })
  const city = mmdb({ '192.0.2.0/24': cityRecord('DE', 'Berlin', 'Берлин') })
  writeFileSync(join(cwd, 'city.mmdb'), city)
  writeFileSync(join(cwd, 'cut.mmdb'), city.subarray(0, 400))
  const asn = { autonomous_system_number: 64500 }
  writeFileSync(join(cwd, 'asn.mmdb'), mmdb({ '192.0.2.0/24': asn }, { type: 'GeoLite2-ASN' }))
  writeFileSync(
    join(cwd, 'my country.mmdb'),
    mmdb({ '198.51.100.0/24': cityRecord('NL', '') }, { type: 'GeoLite2-Country', version: 4 }),
  )
  return cwd
}

const BOTH = ['--geoip', 'city.mmdb', '--geoip', 'my country.mmdb']
const PLACES =
  '[{"ip":"192.0.2.1:80","ping":0.5,"country":"DE","city":"Берлин","works":"90"},' +
  '{"ip":"192.0.2.2:80","ping":null,"country":"DE","city":"Ульм","works":""},' +
  '{"ip":"198.51.100.1:80","ping":null,"country":"NL","city":"","works":""}]'

test('import fills in what a row does not bring', async () => {
  const cwd = directory()
  await take(cwd, { args: ['import', 'a.csv', ...BOTH], stderr: /added 3/ })
  await take(cwd, { args: ['list', ALL], stdout: PLACES })
  await take(cwd, { args: 'list city=berlin&lang=en&time=999999999', stdout: '192.0.2.1:80\n' })
})

test('so do feeds, and a feed is imported again when a database is new', async () => {
  const cwd = directory()
  await take(cwd, { args: 'fetch --feed a.csv', stdout: /./ })
  await take(cwd, { args: ['list', `country=de&${ALL}`], stdout: /^\[\{"ip":"192.0.2.2:80"[^{]*$/ })
  await take(cwd, { args: ['fetch', '--feed', 'a.csv', ...BOTH], stdout: /./ })
  await take(cwd, { args: ['list', ALL], stdout: PLACES })
})

test('an import of a row without a place replaces the stored one, geoip apply none', async () => {
  const cwd = directory()
  writeFileSync(join(cwd, 'paris.csv'), 'ip,type,country,city\n192.0.2.1:80,http,FR,Paris\n')
  await take(cwd, { args: 'import paris.csv', stderr: /added 1/ })
  const list = 'list get=csv&fields=country,city&time=999999999'
  await take(cwd, { args: ['geoip', 'apply', ...BOTH], stderr: /0 of 1/ })
  await take(cwd, { args: list, stdout: 'country,city\r\nFR,Paris\r\n' })
  await take(cwd, { args: ['import', 'none.txt', ...BOTH], stderr: /updated 1/ })
  await take(cwd, { args: list, stdout: 'country,city\r\nDE,Берлин\r\n' })
})

test('geoip apply fills in the list as it stands, and changes nothing else', async () => {
  const cwd = directory()
  await take(cwd, { args: 'import a.csv', stderr: /added 3/ })
  const args = ['geoip', 'apply', ...BOTH]
  await take(cwd, { args, stderr: 'filled in the place of 2 of 3 proxies\n' })
  await take(cwd, { args: ['list', ALL], stdout: PLACES })
  await take(cwd, { args: [...args, '--json'], stdout: '{\n  "rows": 3,\n  "filled": 0\n}\n' })
})

test('a signal ends geoip apply while it waits for an import', async () => {
  const cwd = directory()
  await take(cwd, { args: 'import a.csv', stderr: /added 3/ })
  using list = openList(join(cwd, 'data'))
  const importTx = list.begin('merge')
  await importTx.lock()
  const args = ['geoip', 'apply', '--data', join(cwd, 'data'), '--geoip', join(cwd, 'city.mmdb')]
  await using waiting = startProgram(args)
  await waiting.says(/; waiting\n/)
  waiting.kill('SIGINT')
  expect(await waiting.ended).toBe(130)
  expect(waiting.written.stderr).toBe(
    'another import has locked the list; waiting\n' +
      'proxylist: interrupted; the list is as it was\n',
  )
  importTx.rollback()
})

describe('a database that cannot be used is named', () => {
  const NONE = 'is not a database in the format of MaxMind'
  test.each([
    ['import a.csv', 'none.mmdb', 'proxylist: cannot read none.mmdb: no such file or directory'],
    ['import a.csv', 'cut.mmdb', `proxylist: cut.mmdb ${NONE}`],
    ['geoip apply', 'none.txt', `proxylist: none.txt ${NONE}`],
    ['geoip apply', 'empty.mmdb', `proxylist: empty.mmdb ${NONE}`],
    ['serve', 'asn.mmdb', 'proxylist: asn.mmdb is a GeoLite2-ASN database; places need a City or'],
  ])('%s --geoip %s', async (line, file, says) => {
    const args = `${line} --geoip ${file}`
    const { stderr } = await take(directory(), { args, exitCode: 1, stderr: /^[^\n]+\n$/ })
    expect(stderr).toStartWith(says)
  })

  test('by a feed too, which keeps the list as it was', async () => {
    const cwd = directory()
    const args = ['fetch', '--feed', 'a.csv', '--geoip', 'asn.mmdb']
    const { exitCode, stdout } = await proxylist(args, { cwd })
    expect(exitCode).toBe(1)
    expect(stdout).toContain('asn.mmdb is a GeoLite2-ASN database')
  })

  test('geoip apply wants one', async () => {
    await take(directory(), {
      args: 'geoip apply',
      exitCode: 2,
      stderr: 'proxylist: name a database with --geoip\n',
    })
  })
})
