/**
 * A release (contract G7), made twice from two clones in two folders under another umask and time zone: the same
 * files, that install and run. TARGETS chooses machines; by default that of Linux on x64.
 */
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { version } from '../../../package.json'
import { run as runCommand, succeed } from '../../support/launch.ts'
import { ROOT } from '../../support/program.ts'
import type { Finding, Part } from './part.ts'

const finding = (promise: string, figure: string, holds: boolean): Finding => ({
  ...{ promise, figure: figure.split('\n')[0] ?? '', bound: '', holds },
})

export const release: Part = async run => {
  const targets = process.env.TARGETS ?? 'linux-x64'

  /** Clones HEAD with the tag of its version. */
  async function clone(name: string): Promise<string> {
    const dir = join(run.directory(name), 'proxylist')
    await succeed(['git', 'clone', '-q', ROOT, dir])
    await succeed(['git', '-C', dir, 'tag', '-f', `v${version}`])
    if (existsSync(join(ROOT, '.bun'))) await succeed(['cp', '-a', join(ROOT, '.bun'), dir])
    return dir
  }
  const make = (dir: string, mask: string, zone: string) =>
    runCommand(['sh', '-c', `umask ${mask} && make -s release TARGETS='${targets}'`], {
      ...{ cwd: dir, env: { TZ: zone }, deadlineSeconds: 3000 },
    })

  const [one, two] = [await clone('one'), await clone('two')]
  writeFileSync(join(two, 'src/left.ts'), '')
  const dirty = await make(two, '022', 'UTC')
  const isRefused = /^commit or remove first: \?\? src\/left\.ts$/m.test(dirty.stderr)
  await succeed(['rm', join(two, 'src/left.ts')])
  for (const made of [await make(one, '022', 'UTC'), await make(two, '077', 'Asia/Tokyo')]) {
    if (made.exitCode !== 0) throw new Error(made.stderr)
    run.say(made.stdout)
  }
  const files = join(one, 'dist/release')
  const sums = readFileSync(join(files, 'SHA256SUMS'), 'utf8').trim().split('\n')
  const others = readFileSync(join(two, 'dist/release/SHA256SUMS'), 'utf8').split('\n')
  const differing = sums.filter(line => !others.includes(line)).length
  const named = sums.map(line => line.slice(66))
  const unnamed = readdirSync(files).filter(name => name !== 'SHA256SUMS' && !named.includes(name))
  const to = run.directory('installed')
  const installed = await runCommand(['sh', join(files, 'install.sh'), '--from', files, '--to', to])
  const { stdout: said } = await runCommand([join(to, 'proxylist'), 'version'])
  const findings = [
    finding('untracked source is refused, in one line', dirty.stderr, isRefused),
    finding(
      'made twice, the files are the same bytes',
      `${differing} of ${sums.length} differ`,
      differing === 0,
    ),
    finding('SHA256SUMS names every file', `${unnamed.length} missing`, unnamed.length === 0),
    finding('install.sh installs it', installed.stdout, installed.exitCode === 0),
    finding('it runs', said, said.startsWith(`proxylist ${version} (commit `)),
  ]
  if (Bun.which('lintian') === null) return findings
  for (const name of named.filter(each => each.endsWith('.deb'))) {
    const command = ['lintian', '--fail-on', 'warning', join(files, name)]
    const { exitCode, stdout } = await runCommand(command, { deadlineSeconds: 300 })
    findings.push(finding(`lintian accepts ${name}`, stdout || 'nothing said', exitCode === 0))
  }
  return findings
}
