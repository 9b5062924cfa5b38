/** Places from `--geoip` on the command line (contract G2): at import, in feeds, and for the list as it is. */
import { afterAll, expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { cityRecord, mmdb } from '../support/mmdb.ts'
import { cleanUp } from '../support/temporary.ts'
import { directoryOf, runCommand, runStep } from '../support/transcript.ts'

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

test('import adds places to rows without one', async () => {
  const cwd = directory()
  await runStep(cwd, { args: ['import', 'a.csv', ...BOTH], stderr: /added 3/ })
  await runStep(cwd, { args: ['list', ALL], stdout: PLACES })
  await runStep(cwd, { args: 'list city=berlin&lang=en&time=999999999', stdout: '192.0.2.1:80\n' })
})

test('fetch adds places, and imports a feed again for a new database', async () => {
  const cwd = directory()
  await runStep(cwd, { args: 'fetch --feed a.csv', stdout: /./ })
  await runStep(cwd, {
    args: ['list', `country=de&${ALL}`],
    stdout: /^\[\{"ip":"192.0.2.2:80"[^{]*$/,
  })
  await runStep(cwd, { args: ['fetch', '--feed', 'a.csv', ...BOTH], stdout: /./ })
  await runStep(cwd, { args: ['list', ALL], stdout: PLACES })
})

test('a list gets places when it is exported and imported again', async () => {
  const cwd = directory()
  await runStep(cwd, { args: 'import a.csv', stderr: /added 3/ })
  const { stdout } = await runStep(cwd, { args: 'list get=ndjson&time=999999999', stdout: /./ })
  await runStep(cwd, {
    args: ['import', '-', ...BOTH],
    stdin: stdout,
    stderr: /updated 2, unchanged 1/,
  })
  await runStep(cwd, { args: ['list', ALL], stdout: PLACES })
})

test('a feed reports a database that cannot be used', async () => {
  const cwd = directory()
  const args = ['fetch', '--feed', 'a.csv', '--geoip', 'asn.mmdb']
  const { exitCode, stdout } = await runCommand(args, { cwd })
  expect(exitCode).toBe(1)
  expect(stdout).toContain('asn.mmdb is a GeoLite2-ASN database')
})
