/**
 * `make release`: archives, Debian packages, sums, bill of materials and notes of a tagged commit, in dist/release.
 *
 *     TARGETS=linux-x64,macos-arm64 …     fewer machines
 *
 * Reproducible: the same bytes from the same commit, made with the Bun of package.json on the same kind of machine.
 */
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { version } from '../../../package.json'
import { completionsFor } from '../../../src/cli/commands/completions.ts'
import { launch, succeed } from '../../support/launch.ts'
import { ROOT } from '../../support/program.ts'
import { print, runToEnd } from '../support/main.ts'
import { type Bytes, type Entry, tarOf, zipOf } from './archive.ts'
import { writeDebian } from './debian.ts'
import { manPage } from './man-page.ts'
import { notesOf } from './notes.ts'
import { sbomOf } from './sbom.ts'
import { TARGETS, type Target, targetsFrom } from './targets.ts'

const OUT = join(ROOT, 'dist/release')
const WORK = join(ROOT, 'dist/release-work')

/** How large a file may be, in MB of a million bytes (issue of the release; the runtime is most of it). */
const MB_MAX = { '.tar.gz': 62, '.tar.zst': 48, '.deb': 48, '.zip': 64 }

const git = async (...args: string[]): Promise<string> =>
  (await succeed(['git', ...args], { cwd: ROOT })).trim()

/** @throws Error unless HEAD has the tag of the version, and nothing is there that the commit has not. */
async function checkCommit(): Promise<void> {
  const changed = await git('status', '--porcelain')
  if (changed !== '') throw new Error(`commit or remove first: ${changed.split('\n').join(', ')}`)
  const tags = (await git('tag', '--points-at', 'HEAD')).split('\n')
  if (!tags.includes(`v${version}`))
    throw new Error(`HEAD must have the tag v${version}, of the version in package.json`)
}

/** The subjects of the commits since the release before; `null` for the first. */
async function subjects(): Promise<string[] | null> {
  const before = launch(['git', 'describe', '--tags', '--abbrev=0', '--match', 'v*', 'HEAD^'], {
    cwd: ROOT,
  })
  if ((await before.ended) !== 0) return null
  const tag = before.written.stdout.trim()
  return (await git('log', '--no-merges', '--format=%s', `${tag}..HEAD`)).split('\n')
}

const bytesOf = (name: string): Bytes => readFileSync(join(ROOT, name))
const textBytes = (text: string): Bytes => new TextEncoder().encode(text)

/** What every archive holds but the program. */
function documents(at: Date): Entry[] {
  const topics = readdirSync(join(ROOT, 'data/manual')).sort()
  const manual = new Map(
    topics.map(name => [
      name.replace('.md', ''),
      readFileSync(join(ROOT, 'data/manual', name), 'utf8'),
    ]),
  )
  return [
    { name: 'LICENSE', bytes: bytesOf('LICENSE') },
    { name: 'README.md', bytes: bytesOf('README.md') },
    ...topics.map(name => ({ name: `manual/${name}`, bytes: bytesOf(`data/manual/${name}`) })),
    ...[...new Bun.Glob('*.service').scanSync(join(ROOT, 'data'))]
      .sort()
      .map(name => ({ name, bytes: bytesOf(`data/${name}`) })),
    { name: 'completions/proxylist.bash', bytes: textBytes(completionsFor('bash')) },
    { name: 'completions/_proxylist', bytes: textBytes(completionsFor('zsh')) },
    { name: 'completions/proxylist.fish', bytes: textBytes(completionsFor('fish')) },
    { name: 'proxylist.1', bytes: textBytes(manPage(version, at, manual)) },
  ]
}

/** Builds the program for a target, in a folder of its own; returns its path. */
async function build(target: Target): Promise<string> {
  const binary = join(WORK, target, 'proxylist')
  const make = ['make', '-s', 'build', `TARGET=${TARGETS[target].bun}`, `BINARY=${binary}`]
  await succeed(make, { cwd: ROOT, deadlineSeconds: 600 })
  return target.startsWith('windows') ? `${binary}.exe` : binary
}

async function write(name: string, bytes: Bytes): Promise<void> {
  await Bun.write(join(OUT, name), bytes)
}

/** Writes the archives and packages of a target. */
async function pack(target: Target, at: Date): Promise<void> {
  const binary = await build(target)
  const isWindows = target.startsWith('windows')
  const folder = `proxylist-${version}-${target}`
  const program = {
    name: isWindows ? 'proxylist.exe' : 'proxylist',
    bytes: readFileSync(binary),
    isProgram: true,
  }
  const entries = [program, ...documents(at)]
  if (isWindows) return write(`${folder}.zip`, await zipOf(folder, entries, at))
  const tar = await tarOf(folder, entries, at)
  await write(`${folder}.tar.gz`, Bun.gzipSync(tar, { level: 9 }))
  if (target.startsWith('linux'))
    await write(`${folder}.tar.zst`, new Uint8Array(await Bun.zstdCompress(tar, { level: 19 })))
  const { debian } = TARGETS[target]
  if (debian === null) return
  const file = join(OUT, `proxylist_${version}_${debian}.deb`)
  const about = { version, architecture: debian, at }
  await writeDebian(file, join(WORK, `${target}.deb`), join(ROOT, 'data/debian'), about, entries)
}

/** Prints what was made. @throws Error when a file is larger than it may be. */
function measure(): void {
  for (const name of readdirSync(OUT).sort()) {
    const mb = statSync(join(OUT, name)).size / 1e6
    print(`  ${mb.toFixed(1).padStart(5)} MB  ${name}`)
    const max = Object.entries(MB_MAX).find(([end]) => name.endsWith(end))?.[1] ?? Infinity
    if (mb > max) throw new Error(`${name} has ${mb.toFixed(1)} MB and may have ${max}`)
  }
}

async function main(): Promise<void> {
  const targets = targetsFrom(process.env.TARGETS)
  await checkCommit()
  for (const folder of [OUT, WORK]) rmSync(folder, { recursive: true, force: true })
  mkdirSync(OUT, { recursive: true })
  const at = new Date(1000 * Number(await git('log', '-1', '--format=%ct')))
  for (const target of targets) {
    print(`making ${target}`)
    await pack(target, at)
  }
  const [first = 'linux-x64'] = targets
  const sbom = await sbomOf(ROOT, join(WORK, first), version, at, process.execPath)
  await write(`proxylist-${version}.cdx.json`, textBytes(`${JSON.stringify(sbom, null, 2)}\n`))
  await write('install.sh', bytesOf('data/install.sh'))
  await write('NOTES.md', textBytes(notesOf(version, await subjects())))
  const sums = readdirSync(OUT)
    .sort()
    .map(name => `${Bun.SHA256.hash(readFileSync(join(OUT, name)), 'hex')}  ${name}\n`)
  writeFileSync(join(OUT, 'SHA256SUMS'), sums.join(''))
  rmSync(WORK, { recursive: true })
  measure()
}

await runToEnd(async () => {
  process.umask(0o022) // that of the maker is no part of a package
  await main()
  return 0
})
