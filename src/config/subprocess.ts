/**
 * Starting this very program as another process, and settings as variables of its environment, which
 * other users cannot read.
 */
import { existsSync } from 'node:fs'
import type { Environment } from './environment.ts'
import { environmentNameOf, type SettingName, type Settings } from './settings.ts'
import { IS_COMPILED } from './version.ts'

/** On Linux, the file of this very process: also when an upgrade has replaced it in its place. */
const OWN_FILE = '/proc/self/exe'

/** How this program is started. */
const programOf = (): string[] => {
  if (!IS_COMPILED) return [process.execPath, Bun.main]
  return [existsSync(OWN_FILE) ? OWN_FILE : process.execPath]
}

/** Settings as text, `''` for one that is not set. */
export type Texts = { readonly [name in SettingName]?: string | undefined }

/** Settings as variables of the environment. */
export const environmentOf = (settings: Texts): Environment =>
  Object.fromEntries(
    Object.entries(settings).map(([name, text]) => [
      environmentNameOf(name as SettingName), // of the object's own type
      text,
    ]),
  )

/** Where a process finds the data of its server; the URL of a database holds a password. */
export const storeTexts = ({
  data,
  database = '',
  databaseTimeout,
}: Settings<'data' | 'database' | 'databaseTimeout'>): Texts => ({
  ...{ data, database, databaseTimeout: `${databaseTimeout}ms` },
})

/** Paths as the text of a variable. */
export const linesOf = (files: readonly string[]): string => files.map(file => `${file}\n`).join('')

/** Starts this program; its output is piped. @throws when the system does not start it. */
export const spawnProgram = <In extends 'pipe' | number>(
  args: readonly string[],
  stdin: In,
  env: Environment,
  program: readonly string[] = programOf(),
) =>
  Bun.spawn([...program, ...args], {
    ...{ argv0: 'proxylist', env, stdin },
    stdout: 'pipe',
    stderr: 'pipe',
  })
