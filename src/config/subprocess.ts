/** Starting this very program as another process. */
import { existsSync } from 'node:fs'
import type { Environment } from './environment.ts'
import { IS_COMPILED } from './version.ts'

/** On Linux, the file of this very process: also when an upgrade has replaced it in its place. */
const OWN_FILE = '/proc/self/exe'

/** How this program is started. */
const programOf = (): string[] => {
  if (!IS_COMPILED) return [process.execPath, Bun.main]
  return [existsSync(OWN_FILE) ? OWN_FILE : process.execPath]
}

/** Starts this program; its output is piped. @throws when the system does not start it. */
export const spawnProgram = <In extends 'pipe' | number>(
  args: readonly string[],
  stdin: In,
  env: Environment,
  program: readonly string[] = programOf(),
) =>
  Bun.spawn([...program, ...args], {
    ...{ argv0: 'proxylist', env, stdin, stdout: 'pipe', stderr: 'pipe' },
  })
