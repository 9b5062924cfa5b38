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

const EMULATOR = ['qemu-aarch64-static', '-L', '/usr/aarch64-linux-gnu']

/** What the first bytes of a program for a target are, and the loader that it names. */
const LOOKS: {
  readonly [target: string]: readonly [magic: string, machine: number, loader: string]
} = {
  'linux-x64': ['7f454c46', 62, '/lib64/ld-linux-x86-64.so.2'],
  'linux-x64-musl': ['7f454c46', 62, '/lib/ld-musl-x86_64.so.1'],
  'linux-arm64': ['7f454c46', 183, '/lib/ld-linux-aarch64.so.1'],
  'linux-arm64-musl': ['7f454c46', 183, '/lib/ld-musl-aarch64.so.1'],
  'macos-x64': ['cffaedfe', 0, ''],
  'macos-arm64': ['cffaedfe', 0, ''],
}

function isFor(target: string, program: Buffer): boolean {
  const [magic, machine, loader] = LOOKS[target] ?? ['4d5a', 0, '']
  const isMachine = machine === 0 || program.readUInt16LE(18) === machine
  return (
    program.toString('hex', 0, magic.length / 2) === magic &&
    isMachine &&
    program.subarray(0, 4096).includes(loader)
  )
}

const finding = (promise: string, figure: string, bound: string, holds: boolean): Finding => ({
  ...{ promise, figure, bound, holds },
})

const ARCHIVE = new RegExp(`^proxylist-${RegExp.escape(version)}-(.*)\\.tar\\.gz$`)

/** What the program in an archive is by its header, and whether it runs where it can. */
async function findingsOf(archive: string, dir: string): Promise<Finding[]> {
  const [, target = ''] = ARCHIVE.exec(archive.split('/').at(-1) ?? '') ?? []
  await succeed(['tar', '-xzf', archive, '-C', dir])
  const program = join(dir, `proxylist-${version}-${target}/proxylist`)
  const isRight = isFor(target, readFileSync(program))
  const header = finding(
    `the program for ${target} is one by its header`,
    isRight ? 'yes' : 'no',
    'yes',
    isRight,
  )
  const canEmulate = target === 'linux-arm64' && Bun.which('qemu-aarch64-static') !== null
  if (target !== 'linux-x64' && !canEmulate) return [header]
  const { stdout } = await runCommand([...(canEmulate ? EMULATOR : []), program, 'version'])
  const starts = stdout.startsWith(`proxylist ${version} (commit `)
  return [
    header,
    finding(`the program for ${target} runs`, stdout.trim(), `version ${version}`, starts),
  ]
}

async function lintianOf(file: string): Promise<Finding> {
  const command = ['lintian', '--fail-on', 'warning', file]
  const { exitCode, stdout } = await runCommand(command, { deadlineSeconds: 300 })
  const said = stdout.trim() || 'nothing said'
  return finding(`lintian accepts ${file.split('/').at(-1)}`, said, 'no warning', exitCode === 0)
}

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
  const isRefused =
    dirty.exitCode !== 0 && /^commit or remove first: \?\? src\/left\.ts$/m.test(dirty.stderr)
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
  const isInstalled = installed.exitCode === 0 && existsSync(join(to, 'proxylist'))
  const findings = [
    finding(
      'untracked source is refused, in one line',
      dirty.stderr.split('\n')[0] ?? '',
      'it is named',
      isRefused,
    ),
    finding(
      'made twice, the files are the same bytes',
      `${differing} of ${sums.length} differ`,
      '0',
      differing === 0,
    ),
    finding('SHA256SUMS names every file', `${unnamed.length} missing`, '0', unnamed.length === 0),
    finding(
      'install.sh installs the release',
      installed.stdout.split('\n')[0] ?? '',
      'exit 0',
      isInstalled,
    ),
  ]
  for (const name of named) {
    if (ARCHIVE.test(name))
      findings.push(...(await findingsOf(join(files, name), run.directory('archive'))))
    if (name.endsWith('.deb') && Bun.which('lintian') !== null)
      findings.push(await lintianOf(join(files, name)))
  }
  return findings
}
