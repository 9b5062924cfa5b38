/**
 * Prometheus' own judgement in tests: `promtool`, of the Debian package prometheus. Where it is
 * not installed, tests that need it are skipped.
 */
const PROMTOOL = Bun.which('promtool')

if (PROMTOOL === null) {
  process.stderr.write('tests of metrics with promtool are skipped: install prometheus\n')
}

/** Whether there is a promtool; `test.if(HAS_PROMTOOL)` skips a test where there is none. */
export const HAS_PROMTOOL = PROMTOOL !== null

/** What promtool says of its arguments and stdin; `''` when it finds nothing wrong. */
export async function promtool(args: readonly string[], stdin = ''): Promise<string> {
  if (PROMTOOL === null) throw new Error('there is no promtool')
  const child = Bun.spawn([PROMTOOL, ...args], {
    stdin: Buffer.from(stdin),
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const [stdout, stderr, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ])
  // It warns on stderr, with status 0 or 3, of what is not good style.
  return code === 0 && stderr === '' ? '' : `status ${code}\n${stdout}${stderr}`
}
