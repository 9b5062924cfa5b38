/**
 * The process in which a server imports what its console was sent: this very program, as
 * `import`. It reads the file itself: from a pipe that a killed server leaves, it would take a part of
 * the list for the whole.
 */
import type { RunningImport } from '../admin/import.ts'
import { processEnvironment } from '../config/environment.ts'
import { environmentOf, spawnProgram, type Texts } from '../config/subprocess.ts'
import { messageOf } from '../lib/errors.ts'
import { STDIN } from './commands/import.ts'

/** What `import --progress` says, see `import.ts`. */
const PROGRESS = /^read (\d+) bytes\n/gm

/** Collects what a process says, and takes its progress out of it. */
async function collect(stream: ReadableStream<Uint8Array>, onProgress: (bytes: number) => void) {
  const decoder = new TextDecoder()
  let text = ''
  for await (const chunk of stream) {
    text += decoder.decode(chunk, { stream: true })
    text = text.replace(PROGRESS, (_, bytes) => {
      onProgress(Number(bytes))
      return ''
    })
  }
  return text
}

/**
 * Imports the file of a descriptor with this program; the settings travel in the environment, as those of
 * feeds do.
 */
export function startImport(
  settings: Texts,
  fd: number,
  program?: readonly string[],
): RunningImport {
  let read = 0
  const bytesRead = (): number => read
  try {
    const env = { ...processEnvironment(), ...environmentOf(settings) }
    const child = spawnProgram(['import', STDIN, '--json', '--progress'], fd, env, program)
    const said = collect(child.stderr, bytes => {
      read = bytes
    })
    const printed = new Response(child.stdout).text()
    const ended = Promise.all([printed, said, child.exited]).then(([stdout, stderr, exitCode]) => ({
      ...{ isDone: exitCode === 0, stdout, stderr },
    }))
    return { ended, bytesRead, kill: () => child.kill('SIGKILL') }
  } catch (error) {
    const stderr = `its process could not be started (${messageOf(error)})`
    const ended = Promise.resolve({ isDone: false, stdout: '', stderr })
    return { ended, bytesRead, kill() {} }
  }
}
