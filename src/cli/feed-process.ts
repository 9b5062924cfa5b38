/**
 * Owns the process in which a server fetches a feed: this very program, as `fetch`. A process of its
 * own takes no time of the requests, gives its memory back, and can be killed at any moment.
 */
import { existsSync } from 'node:fs'
import { type Environment, processEnvironment } from '../config/environment.ts'
import { environmentNameOf, type SettingName, type Settings } from '../config/settings.ts'
import { IS_COMPILED } from '../config/version.ts'
import { type Feed, feedLine } from '../feeds/feed.ts'
import type { Attempt } from '../feeds/keep.ts'
import { messageOf } from '../lib/errors.ts'

/** On Linux, the file of this very process: also when an upgrade has replaced it in its place. */
const OWN_FILE = '/proc/self/exe'

/** How this program is started. */
export const programOf = (): string[] => {
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

/** The last line that a process wrote to stderr. */
const lastLine = (text: string): string =>
  (text.trim().split('\n').at(-1) ?? '').replace(/^proxylist: /, '')

/** Fetches a feed in a process; its settings travel in the environment, which other users cannot read. */
export function startFetch(feed: Feed, settings: Texts): Attempt {
  try {
    const child = Bun.spawn([...programOf(), 'fetch'], {
      argv0: 'proxylist',
      env: {
        ...processEnvironment(),
        ...environmentOf({ ...settings, feed: feedLine(feed), feeds: '' }),
      },
      stdin: 'ignore',
      stdout: 'ignore',
      stderr: 'pipe',
    })
    const ended = Promise.all([new Response(child.stderr).text(), child.exited]).then(
      ([text, code]) => {
        if (code === 0) return ''
        return lastLine(text) || `its process ended with ${child.signalCode ?? `status ${code}`}`
      },
    )
    return { ended, kill: () => child.kill('SIGKILL') }
  } catch (error) {
    const failure = `its process could not be started (${messageOf(error)})`
    return { ended: Promise.resolve(failure), kill() {} }
  }
}
