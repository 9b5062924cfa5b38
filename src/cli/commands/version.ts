/** `version`: the versions of the program and of what is built into it. */

import { BUN_VERSION, COMMIT, SQLITE_VERSION, VERSION } from '../../config/version.ts'
import { command, print, printJson } from '../command.ts'

export const versionCommand = command({
  name: 'version',
  summary: 'print the version, commit, and the Bun and SQLite versions',
  settings: ['json'],
  example: 'proxylist version --json',
  run({ settings: { json } }) {
    if (json)
      return printJson({
        version: VERSION,
        commit: COMMIT,
        bun: BUN_VERSION,
        sqlite: SQLITE_VERSION,
      })
    return print(
      `proxylist ${VERSION} (commit ${COMMIT}, Bun ${BUN_VERSION}, SQLite ${SQLITE_VERSION})\n`,
    )
  },
})
