/** The machines that a release is made for. */

/** By the name in the archive: what Bun calls it, the architecture of Debian that gets a package, and whether it is a zip. */
export const TARGETS = {
  'linux-x64': { bun: 'linux-x64', debian: 'amd64' },
  'linux-x64-musl': { bun: 'linux-x64-musl', debian: null },
  'linux-arm64': { bun: 'linux-arm64', debian: 'arm64' },
  'linux-arm64-musl': { bun: 'linux-arm64-musl', debian: null },
  'macos-x64': { bun: 'darwin-x64', debian: null },
  'macos-arm64': { bun: 'darwin-arm64', debian: null },
  'windows-x64': { bun: 'windows-x64', debian: null },
} as const satisfies { [name: string]: { bun: string; debian: string | null } }

export type Target = keyof typeof TARGETS

/** The targets of `TARGETS=linux-x64,macos-arm64`, all by default. @throws Error naming those that there are. */
export function targetsFrom(text = ''): Target[] {
  const all = Object.keys(TARGETS) as Target[]
  const chosen = text.split(/[\s,]+/).filter(Boolean)
  for (const name of chosen) {
    if (!all.some(each => each === name))
      throw new Error(`TARGETS may have ${all.join(', ')}, not ${name}`)
  }
  return chosen.length === 0 ? all : all.filter(each => chosen.includes(each))
}
