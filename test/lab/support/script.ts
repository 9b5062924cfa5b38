/** Load clients that are processes of their own: scripts of test/lab under the same Bun. */
import { join } from 'node:path'
import { launch } from '../../support/launch.ts'

type ScriptOptions = {
  deadlineSeconds?: number
  stdout?: 'collect' | 'pipe'
  /** A command that runs the script, such as `nice`. */
  wrapper?: readonly string[]
}

/** Starts a script, named by its path in test/lab; `input` is its first argument, as JSON. */
export const launchScript = (
  script: string,
  input: unknown,
  { deadlineSeconds, stdout = 'collect', wrapper = [] }: ScriptOptions,
) => {
  const path = join(import.meta.dir, '..', script)
  return launch([...wrapper, process.execPath, path, JSON.stringify(input)], {
    ...{ stdout, stderr: 'inherit' },
    ...(deadlineSeconds !== undefined && { deadlineSeconds }),
  })
}

export type Script<Result> = { result: Promise<Result>; stop: () => Promise<unknown> }

/**
 * Starts a script that works on `input`, see `runAsScript`; it is killed after `deadlineSeconds`.
 * `result` is what it writes to stdout, parsed as JSON.
 */
export function startScript<Result>(
  script: string,
  input: unknown,
  deadlineSeconds: number,
  wrapper: readonly string[] = [],
): Script<Result> {
  const { ended, written, stop } = launchScript(script, input, { deadlineSeconds, wrapper })
  const result = ended.then(exitCode => {
    if (exitCode !== 0) throw new Error(`${script} failed or took too long`)
    return JSON.parse(written.stdout) as Result // each script exports the type of what it writes
  })
  result.catch(() => {}) // it may fail before it is awaited; then awaiting it throws
  return { result, stop }
}

/** The other side of `startScript`: works on the input and writes the result. */
export async function runAsScript<Input, Result>(
  work: (input: Input) => Promise<Result> | Result,
): Promise<never> {
  const result = await work(JSON.parse(process.argv[2] ?? 'null') as Input) // from startScript
  await Bun.write(Bun.stdout, JSON.stringify(result))
  process.exit(0)
}
