/** The request as programs (F6): each is run by its language, and gets what was chosen. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import {
  type Choice,
  FORMS,
  paramsOf,
  queryString,
  START,
} from '../../../src/web/page/model/query.ts'
import {
  CODES,
  type Code,
  type RequestParts,
  snippet,
} from '../../../src/web/page/model/snippets.ts'
import { dataDirectory, KEY } from '../../support/fixtures.ts'
import { run } from '../../support/launch.ts'
import { startChild } from '../../support/service.ts'
import { cleanUp, temporaryDirectory } from '../../support/temporary.ts'

afterAll(cleanUp)

/** Names that a careless writer of programs breaks on. */
const CITIES = ["L'Aquila", 'Saint "Denis"', 'Нью-Йорк', 'a$HOME\\n`id`', '%s {x} & +', '東京']
const rows = [...CITIES, 'Berlin'].map((city, i) => ({
  ...{ ip: `192.0.2.${i + 1}:80`, type: 'http', country: 'de', city },
}))

let origin = ''
beforeAll(async () => {
  origin = (await startChild(dataDirectory(rows))).url
})

function partsOf(change: Partial<Choice>, from = origin): RequestParts {
  const choice = { ...START, ...change }
  const params = paramsOf(choice)
  return { origin: from, choice, params, query: queryString(params) }
}

/** The file and the command that run a program of each language. */
const RUNS: { readonly [C in Code]: readonly [file: string, ...command: string[]] } = {
  curl: ['request.sh', 'sh'],
  Python: ['proxies.py', 'python3'],
  Node: ['proxies.mjs', 'node'],
}

async function outputOf(code: Code, change: Partial<Choice>, key = KEY) {
  const dir = temporaryDirectory()
  const [file, ...command] = RUNS[code]
  await Bun.write(join(dir, file), snippet(code, partsOf(change)))
  const env = { PROXYLIST_KEY: key, PYTHONIOENCODING: 'utf-8' }
  return run([...command, join(dir, file)], { env, cwd: dir, deadlineSeconds: 60 })
}

const needed = (code: Code): string => (code === 'curl' ? code : (RUNS[code][1] ?? ''))

for (const code of CODES) {
  const isThere = Bun.which(needed(code)) !== null
  if (!isThere) process.stderr.write(`${code} is not installed: its programs are not run\n`)

  describe.if(isThere)(`the program in ${code}`, () => {
    test('requests cities of any name', async () => {
      const { exitCode, stdout, stderr } = await outputOf(code, {
        ...{ city: CITIES.join(), fields: 'ip' },
      })
      const found = [...stdout.matchAll(/192\.0\.2\.\d/g)].map(([ip]) => ip)
      expect({ exitCode, found: found.sort(), stderr: exitCode === 0 ? '' : stderr }).toEqual({
        ...{ exitCode: 0, found: CITIES.map((_, i) => `192.0.2.${i + 1}`), stderr: '' },
      })
    })

    test.each<Partial<Choice>>([
      ...FORMS.map(get => ({ get })),
      { get: 'txt', type_prefix: '1' },
      { wrap: '1' },
      { format: 'object' },
      { wrap: '1', format: 'object' },
      { get: 'csv', fields: 'ip,city' },
    ])('prints all of %j', async change => {
      const { exitCode, stdout } = await outputOf(code, change)
      const found = new Set([...stdout.matchAll(/192\.0\.2\.\d/g)].map(([ip]) => ip))
      expect({ exitCode, found: found.size }).toEqual({ exitCode: 0, found: rows.length })
    })

    test('fails when the key is wrong, with the message of the API', async () => {
      const { exitCode, stdout, stderr } = await outputOf(code, {}, 'wrong')
      expect(exitCode).not.toBe(0)
      expect(stdout + stderr).toContain('INVALID_KEY')
    })
  })
}

test.each(CODES)('in %s the key is in the environment, and in no URL', code => {
  const program = snippet(code, partsOf({}))
  expect(program).toContain('PROXYLIST_KEY')
  expect(program).not.toContain('key=')
})
