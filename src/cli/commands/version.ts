/** `version`: the versions of the program, Bun and SQLite. */
import { BUN_VERSION, COMMIT, SQLITE_VERSION, VERSION } from '../../config/version.ts'
import { command, print, printJson } from '../command.ts'

export const versionCommand = command({
  name: 'version',
  summary: 'print the version, commit, and the Bun and SQLite versions',
  settings: ['json'],
  example: 'proxylist version --json',
  run({ settings: { json } }) {
    const [version, commit, bun, sqlite] = [VERSION, COMMIT, BUN_VERSION, SQLITE_VERSION]
    if (json) return printJson({ version, commit, bun, sqlite })
    return print(`proxylist ${version} (commit ${commit}, Bun ${bun}, SQLite ${sqlite})\n`)
  },
})
