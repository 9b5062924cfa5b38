/** Reproducible archives: sorted names, root as owner, fixed modes, the time of the commit. */
import { packTar } from 'modern-tar'
import { ZipFile } from 'yazl'

export type Bytes = Uint8Array<ArrayBuffer>
export type Entry = { name: string; bytes: Bytes; isProgram?: boolean }

const modeOf = ({ isProgram }: Entry): number => (isProgram ? 0o755 : 0o644)

/** Entries by name, all in a folder. */
const inFolder = (folder: string, entries: readonly Entry[]): Entry[] =>
  entries
    .map(entry => ({ ...entry, name: `${folder}/${entry.name}` }))
    .sort((a, b) => (a.name < b.name ? -1 : 1))

/** A tar file of a folder. */
export const tarOf = (folder: string, entries: readonly Entry[], mtime: Date): Promise<Bytes> =>
  packTar(
    inFolder(folder, entries).map(entry => ({
      header: {
        ...{ name: entry.name, size: entry.bytes.length, mode: modeOf(entry), mtime },
        ...{ uid: 0, gid: 0, uname: 'root', gname: 'root', type: 'file' },
      },
      body: entry.bytes,
    })),
  )

/** A zip file of a folder. Its times are those of the time zone: the release runs in UTC. */
export async function zipOf(
  folder: string,
  entries: readonly Entry[],
  mtime: Date,
): Promise<Bytes> {
  const zip = new ZipFile()
  for (const entry of inFolder(folder, entries)) {
    const options = { mtime, mode: 0o100_000 | modeOf(entry), compressionLevel: 9 }
    zip.addBuffer(Buffer.from(entry.bytes), entry.name, options)
  }
  zip.end()
  const chunks: Buffer[] = []
  for await (const chunk of zip.outputStream) chunks.push(Buffer.from(chunk))
  return Buffer.concat(chunks)
}
