/**
 * The servers that the program is compared with: a bare `Bun.serve`, which hands out an answer of the program's as a
 * constant, and Fastify with better-sqlite3, which does the work.
 */
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { launchServer, run, type Server } from '../../../support/launch.ts'
import { keyOf } from '../../support/customers.ts'
import type { Workspace } from '../workspace.ts'
import type { BareInput } from './bare.ts'

/** An answer of the program, for a baseline to repeat byte by byte. */
type Captured = { status: number; headers: { [name: string]: string }; body: Uint8Array }

const PRODUCTION = { env: { NODE_ENV: 'production' }, stdout: 'ignore' } as const

/** Header fields that every server adds by itself. */
const OWN_HEADERS = ['date', 'content-length', 'connection', 'keep-alive', 'transfer-encoding']

/** A server under load. */
export type BenchServer = Pick<Server, 'port' | 'pid' | 'stop'>

/** Asks for an answer that is neither compressed nor decompressed. */
export async function ask(
  server: Pick<Server, 'port'>,
  target: string,
  accepts = 'identity',
): Promise<Captured> {
  const response = await fetch(`http://127.0.0.1:${server.port}${target}`, {
    headers: { 'accept-encoding': accepts },
    decompress: false,
  })
  const headers = [...response.headers].filter(([name]) => !OWN_HEADERS.includes(name))
  const body = await response.bytes()
  return { status: response.status, headers: Object.fromEntries(headers), body }
}

const BARE = join(import.meta.dir, 'bare.ts')

/** The argument of the bare server: an answer to repeat, and a port (0 is any free one). */
export function bareArgument({ dir }: Workspace, answer: Captured, port = 0): string {
  const bodyFile = join(dir, `bare-${answer.status}`)
  writeFileSync(bodyFile, answer.body)
  const { status, headers } = answer
  return JSON.stringify({ port, status, headers, bodyFile } satisfies BareInput)
}

export const startBare = (workspace: Workspace, answer: Captured): Promise<Server> =>
  launchServer([process.execPath, BARE, bareArgument(workspace, answer)], PRODUCTION)

/** Compiles the bare server to a binary, as the program is; gives its path. */
export async function compileBare({ dir }: Workspace): Promise<string> {
  const binary = join(dir, 'bare')
  const flags = ['--compile', '--bytecode', '--format=esm']
  const done = await run([process.execPath, 'build', ...flags, BARE, '--outfile', binary])
  if (done.exitCode !== 0) throw new Error(`bare.ts was not compiled: ${done.stderr}`)
  return binary
}

const PROBE = `import 'fastify'; import 'proxy-verifier'; import Database from 'better-sqlite3'; new Database(':memory:')`

/** Runs a Node command here, in our environment: it may name a package registry. */
async function succeeds(command: string[], deadlineSeconds: number): Promise<boolean> {
  const { env } = process
  const { exitCode } = await run(command, { env, cwd: import.meta.dir, deadlineSeconds })
  return exitCode === 0
}

/** The command that runs a baseline under Node, its packages installed if they are missing; otherwise the reason. */
export async function nodeBaseline(file: string): Promise<string[] | string> {
  const [node, npm] = [Bun.which('node'), Bun.which('npm')]
  if (!node) return 'node is not installed'
  const folder = import.meta.dir
  const isReady = () => succeeds([node, '--input-type=module', '-e', PROBE], 20)
  if (!existsSync(join(folder, 'node_modules')) || !(await isReady())) {
    if (!npm) return 'npm is not installed'
    process.stderr.write('installing the baselines in test/lab/bench/baselines (once)\n')
    const install = [npm, 'ci', '--no-audit', '--no-fund', '--loglevel=error']
    if (!(await succeeds(install, 300))) return 'npm could not install or build them'
    if (!(await isReady())) return 'better-sqlite3 does not load under this Node'
  }
  return [node, join(folder, file)]
}

/** Fastify under Node; otherwise the reason why it is not there. */
export async function startFastify(workspace: Workspace): Promise<Server | string> {
  const command = await nodeBaseline('fastify.mjs')
  if (typeof command === 'string') return command
  const { options, dir } = workspace
  const input = {
    databaseFile: join(dir, 'fastify.db'),
    rowsFile: await workspace.rowFiles.random(),
    keys: Array.from({ length: options.keys }, (_, n) => keyOf(n)),
  }
  const inputFile = join(dir, 'fastify.json')
  writeFileSync(inputFile, JSON.stringify(input))
  return launchServer([...command, inputFile], PRODUCTION)
}
