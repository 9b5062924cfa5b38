/** Load clients that are processes of their own: scripts of test/lab under the same Bun. */
import { launch } from '../../support/launch.ts'

export type Script<Result> = { result: Promise<Result>; stop: () => Promise<unknown> }

/**
 * Makes a function a script: what is returned starts it on an input in a process of its own, which is
 * killed after `deadlineSeconds`; `wrapper` is a command that runs it, such as `nice`. Input and result
 * go from process to process as JSON. It is called last in its module, which that process runs again.
 */
export function script<Input, Result>(
  module: ImportMeta,
  work: (input: Input) => Promise<Result> | Result,
) {
  const [, , name, given = 'null'] = process.argv
  if (module.main && name === work.name) {
    void Promise.resolve(work(JSON.parse(given) as Input)).then(async result => {
      await Bun.write(Bun.stdout, JSON.stringify(result))
      process.exit(0)
    })
  }
  return (
    input: Input,
    deadlineSeconds: number,
    wrapper: readonly string[] = [],
  ): Script<Result> => {
    const command = [process.execPath, module.path, work.name, JSON.stringify(input)]
    const child = launch([...wrapper, ...command], { deadlineSeconds, stderr: 'inherit' })
    const result = child.ended.then(exitCode => {
      if (exitCode !== 0) throw new Error(`${module.file} failed or took too long`)
      return JSON.parse(child.written.stdout) as Result // what `work` gave there
    })
    result.catch(() => {}) // it may fail before it is awaited; then awaiting it throws
    return { result, stop: child.stop }
  }
}
