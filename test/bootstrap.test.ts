/**
 * Holds what happens before the rest of the program is loaded: NODE_ENV has its default when Elysia
 * reads it, and the binary refuses variables that steer the runtime.
 */
import { afterAll, describe, expect, test } from 'bun:test'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { BINARY, proxylist, ROOT } from './support/program.ts'
import { cleanUp, temporaryDirectory } from './support/temporary.ts'

afterAll(cleanUp)

/** Reports every read of an unset NODE_ENV, until it is set; a preload hides itself afterwards. */
const PROBE = `
delete process.env.BUN_OPTIONS
const report = what => process.stderr.write(\`NODE_ENV is \${what}\\n\`)
const unset = new Proxy({}, {
  get: (_, name) => (name === 'NODE_ENV' ? void report('read') : undefined),
  set(_, name, value, env) {
    Object.setPrototypeOf(env, Object.prototype)
    if (name === 'NODE_ENV') report(\`set to \${value}\`)
    env[name] = value
    return true
  },
})
Object.setPrototypeOf(process.env, unset)
`

function probe(): string {
  const file = join(temporaryDirectory(), 'probe.js')
  writeFileSync(file, PROBE)
  return file
}

describe('NODE_ENV', () => {
  test('has its default before Elysia reads it', async () => {
    const { exitCode, stderr } = await proxylist(['version'], {
      env: { BUN_OPTIONS: `--preload=${probe()}` },
    })
    // One read, by the assignment of the default. Elysia's would be another.
    expect(stderr).toBe('NODE_ENV is read\nNODE_ENV is set to production\n')
    expect(exitCode).toBe(0)
  })

  test('is read by Elysia when it is loaded', () => {
    const args = [process.execPath, '--preload', probe(), '-e', "import 'elysia'"]
    const { stderr } = Bun.spawnSync(args, { cwd: ROOT, env: {} })
    expect(stderr.toString()).toBe('NODE_ENV is read\n')
  })

  test('has its default because bootstrap.ts is the first import of main.ts', () => {
    const [first] = /^import .*/m.exec(readFileSync(join(ROOT, 'src/main.ts'), 'utf8')) ?? []
    expect(first).toBe("import './bootstrap.ts'")
  })
})

if (BINARY !== undefined) {
  describe('the binary', () => {
    // Which variables steer it is in `config/environment.test.ts`.
    test.each([
      ['BUN_OPTIONS', '--smol'],
      ['BUN_INSPECT', '127.0.0.1:0'],
      ['BUN_JSC_useJIT', '0'],
    ])('refuses to start with %s', async (name, value) => {
      const { exitCode, stdout, stderr } = await proxylist(['version'], { env: { [name]: value } })
      expect([exitCode, stdout]).toEqual([2, ''])
      expect(stderr).toBe(
        `proxylist: ${name} would change the runtime inside; start it without: env -u ${name} proxylist …\n`,
      )
    })

    test.each(['BUN_OPTIONS', 'BUN_INSPECT_PRELOAD'])(
      'refuses to start with code in %s, although the runtime runs that first',
      async name => {
        const loud = join(temporaryDirectory(), 'loud.ts')
        writeFileSync(loud, "process.stderr.write('loud\\n')")
        const value = name === 'BUN_OPTIONS' ? `--preload=${loud}` : loud
        const { exitCode, stdout, stderr } = await proxylist(['version'], {
          env: { [name]: value },
        })
        expect([exitCode, stdout]).toEqual([2, ''])
        expect(stderr).toStartWith(`loud\nproxylist: ${name} would change`)
      },
    )

    test('is plain Bun with BUN_BE_BUN, as the manual says', async () => {
      const { stdout } = await proxylist(['--version'], { env: { BUN_BE_BUN: '1' } })
      expect(stdout).toBe(`${Bun.version}\n`)
    })

    test.each([
      ['BUN_RUNTIME_TRANSPILER_CACHE_PATH', '0'],
      ['BUN_OPTIONS', ''],
      ['NODE_OPTIONS', '--inspect'],
    ])('ignores %s=%s', async (name, value) => {
      const { exitCode, stderr } = await proxylist(['version'], { env: { [name]: value } })
      expect([exitCode, stderr]).toEqual([0, ''])
    })
  })
}
