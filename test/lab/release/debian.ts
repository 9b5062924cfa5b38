/** The Debian package, made by dpkg-deb from a folder that is laid out here. */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { succeed } from '../../support/launch.ts'
import type { Bytes, Entry } from './archive.ts'

/** The units run the program where the package puts it. */
const packaged = (unit: string): string => unit.replaceAll('/usr/local/bin/', '/usr/bin/')

const control = (
  version: string,
  architecture: string,
  kilobytes: number,
): string => `Package: proxylist
Version: ${version}
Architecture: ${architecture}
Maintainer: the proxylist authors <proxylist@users.noreply.github.com>
Installed-Size: ${kilobytes}
Depends: libc6 (>= 2.17)
Section: net
Priority: optional
Description: service that answers which proxies match a filter
 Loads or is fed a list of proxy servers, gives customers keys with plans,
 and serves the proxies that match a filter over HTTP. One executable with
 everything in it; its two databases are SQLite files.
`

/** Writes a `.deb` to a file. @param entries those of the archive; @param source the folder data/debian */
export async function writeDebian(
  file: string,
  folder: string,
  source: string,
  { version, architecture, at }: { version: string; architecture: string; at: Date },
  entries: readonly Entry[],
): Promise<void> {
  const put = (name: string, bytes: Uint8Array | string, mode = 0o644): void => {
    mkdirSync(dirname(join(folder, name)), { recursive: true, mode: 0o755 })
    writeFileSync(join(folder, name), bytes, { mode })
  }
  const own = (name: string): string => readFileSync(join(source, name), 'utf8')
  const named = new Map(entries.map(entry => [entry.name, entry.bytes]))
  const of = (name: string): Bytes => {
    const bytes = named.get(name)
    if (bytes === undefined) throw new Error(`the archive has no ${name}`)
    return bytes
  }
  const text = (name: string): string => new TextDecoder().decode(of(name))
  const documents = '/usr/share/doc/proxylist'
  put('/usr/bin/proxylist', of('proxylist'), 0o755)
  for (const { name } of entries)
    if (name.endsWith('.service')) put(`/usr/lib/systemd/system/${name}`, packaged(text(name)))
  put('/usr/share/man/man1/proxylist.1.gz', Bun.gzipSync(of('proxylist.1'), { level: 9 }))
  put('/usr/share/bash-completion/completions/proxylist', of('completions/proxylist.bash'))
  put('/usr/share/zsh/vendor-completions/_proxylist', of('completions/_proxylist'))
  put('/usr/share/fish/vendor_completions.d/proxylist.fish', of('completions/proxylist.fish'))
  for (const { name, bytes } of entries)
    if (name.startsWith('manual/') || name === 'README.md') put(`${documents}/${name}`, bytes)
  put(
    `${documents}/copyright`,
    `${own('copyright')}${text('LICENSE')
      .replace(/^(?=.)/gm, ' ')
      .replace(/^$/gm, ' .')
      .replace(/ \.\n?$/, '')}`,
  )
  const changes = `proxylist (${version}) stable; urgency=medium\n\n  * Release ${version}.\n\n -- the proxylist authors <proxylist@users.noreply.github.com>  ${at.toUTCString().replace('GMT', '+0000')}\n`
  put(`${documents}/changelog.gz`, Bun.gzipSync(Buffer.from(changes), { level: 9 }))
  put('/usr/share/lintian/overrides/proxylist', own('lintian-overrides'))
  const settings = readdirSync(source).filter(name => name.endsWith('.env'))
  for (const name of settings) put(`/etc/${name}`, own(name), 0o640)
  const installed = settings.toSorted().map(name => `/etc/${name}\n`)
  put('/DEBIAN/conffiles', installed.join(''))
  for (const name of readdirSync(source).filter(each => /^(?:post|pre)/.test(each)))
    put(`/DEBIAN/${name}`, own(name), 0o755)
  const kilobytes = Math.ceil(entries.reduce((sum, { bytes }) => sum + bytes.length, 0) / 1024)
  put('/DEBIAN/control', control(version, architecture, kilobytes))
  const build = [
    'dpkg-deb',
    '--root-owner-group',
    '-Zxz',
    '--threads-max=1',
    '--build',
    folder,
    file,
  ]
  await succeed(build, {
    env: { SOURCE_DATE_EPOCH: String(at.getTime() / 1000) },
    deadlineSeconds: 900,
  })
}
