/** The software bill of materials (CycloneDX 1.6): what the program holds, by its source maps and bun.lock. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** The package a bundled source comes from; `null` for our own. */
export const packageOf = (source: string): string | null =>
  /.*\bnode_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(source)?.[1] ?? null

/** The sources of a program, from the maps that the build writes into its folder. */
export const sourcesIn = (folder: string): string[] =>
  readdirSync(folder)
    .filter(name => name.endsWith('.map'))
    .flatMap(name => JSON.parse(readFileSync(join(folder, name), 'utf8')).sources)

/** Those that a macro bundles into the pages: maps of the binary do not show them. */
export const IN_PAGES = ['preact']

type Locked = [version: string, registry: string, meta: object, integrity: string]

/** A package as a component: version and hash from bun.lock, licence from its own package.json. */
function componentOf(root: string, name: string, locked: Locked) {
  const { license } = JSON.parse(
    readFileSync(join(root, 'node_modules', name, 'package.json'), 'utf8'),
  )
  const version = locked[0].slice(locked[0].lastIndexOf('@') + 1)
  const [algorithm, hash = ''] = locked[3].split('-', 2)
  if (algorithm !== 'sha512') throw new Error(`bun.lock has no sha512 of ${name}`)
  const purl = `pkg:npm/${name.replace('@', '%40')}@${version}`
  return {
    ...{ type: 'library', 'bom-ref': purl, name, version, purl },
    licenses: [{ license: { id: license } }],
    hashes: [{ alg: 'SHA-512', content: Buffer.from(hash, 'base64').toString('hex') }],
  }
}

/**
 * The document for a version of the program; the same bytes for the same source.
 * @param folder holds the source maps of a build
 * @param runtime the executable of Bun, whose version is `Bun.version`
 */
export async function sbomOf(
  root: string,
  folder: string,
  version: string,
  at: Date,
  runtime: string,
) {
  const { packages } = Bun.JSONC.parse(readFileSync(join(root, 'bun.lock'), 'utf8')) as {
    packages: { [name: string]: Locked }
  }
  const held = sourcesIn(folder)
    .map(packageOf)
    .filter(name => name !== null)
  const names = [...new Set([...held, ...IN_PAGES])].sort()
  const libraries = names.map(name => {
    const locked = packages[name]
    if (locked === undefined) throw new Error(`bun.lock does not know ${name}`)
    return componentOf(root, name, locked)
  })
  const bun = {
    ...{
      type: 'platform',
      'bom-ref': `pkg:npm/bun@${Bun.version}`,
      name: 'bun',
      version: Bun.version,
    },
    ...{ purl: `pkg:npm/bun@${Bun.version}`, licenses: [{ license: { id: 'MIT' } }] },
    hashes: [{ alg: 'SHA-256', content: Bun.SHA256.hash(await Bun.file(runtime).bytes(), 'hex') }],
  }
  const self = `pkg:generic/proxylist@${version}`
  return {
    ...{ $schema: 'http://cyclonedx.org/schema/bom-1.6.schema.json', bomFormat: 'CycloneDX' },
    ...{ specVersion: '1.6', version: 1 },
    metadata: {
      timestamp: at.toISOString(),
      component: {
        ...{ type: 'application', 'bom-ref': self, name: 'proxylist', version, purl: self },
        licenses: [{ license: { id: 'MIT' } }],
      },
    },
    components: [bun, ...libraries],
    dependencies: [
      { ref: self, dependsOn: [bun, ...libraries].map(component => component['bom-ref']) },
    ],
  }
}
