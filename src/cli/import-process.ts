/**
 * Owns the process in which a server imports what its console was sent: this very program, as
 * `import`, which reads an open file.
 */

import type { RunningImport } from '../app.ts'
import { processEnvironment } from '../config/environment.ts'
import { messageOf } from '../lib/errors.ts'
import { environmentOf, programOf, type Texts } from './feed-process.ts'
import { STDIN } from './import.ts'

/** Imports the file of a descriptor; the settings travel in the environment, as those of feeds do. */
export function startImport(settings: Texts, fd: number): RunningImport {
  try {
    const child = Bun.spawn([...programOf(), 'import', STDIN, '--json'], {
      argv0: 'proxylist',
      env: { ...processEnvironment(), ...environmentOf(settings) },
      stdin: fd,
      stdout: 'pipe',
      stderr: 'pipe',
    })
    const texts = [new Response(child.stdout).text(), new Response(child.stderr).text()]
    const ended = Promise.all([...texts, child.exited]).then(([stdout, stderr]) => ({
      isDone: child.exitCode === 0,
      stdout: String(stdout),
      stderr: String(stderr),
    }))
    return { ended, kill: () => child.kill('SIGKILL') }
  } catch (error) {
    const stderr = `its process could not be started (${messageOf(error)})`
    return { ended: Promise.resolve({ isDone: false, stdout: '', stderr }), kill() {} }
  }
}
