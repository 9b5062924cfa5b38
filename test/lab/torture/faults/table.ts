/** The faults: how each is caused and ended, and whether that is possible on this machine. */
import { Database } from 'bun:sqlite'
import {
  copyFileSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { addressOf } from '../../support/rows.ts'
import { files } from '../../support/serve.ts'
import { importList, type Watched } from './server.ts'

export type Scene = {
  binary: string
  dir: string
  /** The list as a file to import. */
  source: string
  /** A copy of access.db. */
  accessCopy: string
  server: Watched
}
/** Causes a fault; gives what ends it. */
type Begin = (scene: Scene) => (() => void | Promise<void>) | Promise<() => void | Promise<void>>

export type Fault = {
  name: string
  begin: Begin
  /** What clients must get meanwhile: 503 and no answers, only right answers, or either. */
  shows: 'refusals' | 'answers' | 'either'
  /** How long it lasts at full scale, in seconds. */
  seconds: number
  /** With the data on a small file system, or with a server of another user. */
  on?: 'small disk' | 'another user'
}

/** The fault cannot be caused on this machine, for this reason. */
export class Unavailable extends Error {}

/** @throws Unavailable when the command fails. */
export function run(...command: string[]): void {
  const { exitCode, stderr } = Bun.spawnSync(command)
  if (exitCode !== 0) throw new Unavailable(`${command[0]}: ${stderr.toString().trim()}`)
}

const importAgain = async ({ binary, dir, source }: Scene): Promise<void> => {
  await importList(binary, dir, source)
}

/** Renames a copy over the file, as an operator would restore a backup. */
function restoreAccess({ dir, accessCopy }: Scene): void {
  const fresh = `${files(dir).access}.restored`
  copyFileSync(accessCopy, fresh)
  renameSync(fresh, files(dir).access)
}

const lock =
  (which: 'list' | 'access'): Begin =>
  ({ dir }) => {
    const db = new Database(files(dir)[which], { readwrite: true, create: false })
    db.run('pragma busy_timeout = 5000')
    db.run('begin immediate')
    return () => {
      db.run('rollback')
      db.close()
    }
  }

/** Truncates a file to a share of its size. */
const truncate =
  (which: 'list' | 'access', share: number, end = ''): Begin =>
  scene => {
    const file = files(scene.dir)[which] + end
    truncateSync(file, Math.floor((statSync(file).size * share) / 1000) * 1000)
    return () => (which === 'list' ? importAgain(scene) : restoreAccess(scene))
  }

const remove =
  (which: 'list' | 'access', ends: readonly string[]): Begin =>
  scene => {
    for (const end of ends) rmSync(files(scene.dir)[which] + end, { force: true })
    return () => (which === 'list' ? importAgain(scene) : restoreAccess(scene))
  }

function fillDisk({ dir }: Scene) {
  const filler = `${dir}/filler`
  Bun.spawnSync(['dd', 'if=/dev/zero', `of=${filler}`, 'bs=4k'])
  return () => unlinkSync(filler)
}

/** More than the small disk holds. */
const TOO_MANY_ROWS = 300_000

/** Imports more than the disk holds; nothing is done afterwards. */
async function overfillDisk({ binary, dir }: Scene) {
  const source = `${dir}/../too-many.txt`
  const rows = Array.from({ length: TOO_MANY_ROWS }, (_, n) => `http://${addressOf(n)}\n`)
  writeFileSync(source, rows.join(''))
  const { exited, stderr } = Bun.spawn([binary, 'import', source, '--data', dir], {
    stderr: 'pipe',
  })
  const said = await new Response(stderr).text()
  if ((await exited) !== 1 || !said.includes('the disk is full')) {
    throw new Error(`the import did not fail because of the disk: ${said}`)
  }
  return () => {}
}

function limitFileSize({ server }: Scene) {
  run('prlimit', '--pid', String(server.pid), '--fsize=4096:unlimited')
  return () => run('prlimit', '--pid', String(server.pid), '--fsize=unlimited:unlimited')
}

function makeImmutable({ dir }: Scene) {
  const { list, access } = files(dir)
  const all = [list, access, `${access}-wal`, dir]
  run('chattr', '+i', ...all)
  return () => run('chattr', '-i', ...all.reverse())
}

const changeMode =
  (mode: string) =>
  ({ dir }: Scene) => {
    run('chmod', mode, dir)
    return () => run('chmod', '0700', dir)
  }

/** Overwrites the middle of the list. */
function overwrite(scene: Scene) {
  const { list } = files(scene.dir)
  const bytes = readFileSync(list)
  bytes.fill(0x5a, bytes.length / 2, bytes.length / 2 + 20_000)
  writeFileSync(list, bytes)
  return () => importAgain(scene)
}

async function replaceList(scene: Scene) {
  const { list } = files(scene.dir)
  const fresh = `${list}.restored`
  const db = new Database(list)
  db.run(`vacuum into '${fresh}'`)
  db.close()
  renameSync(fresh, list)
  return () => {}
}

export const FAULTS: readonly Fault[] = [
  { name: 'full disk', begin: fillDisk, shows: 'refusals', seconds: 3, on: 'small disk' },
  {
    name: 'import that fills the disk',
    begin: overfillDisk,
    shows: 'either',
    seconds: 3,
    on: 'small disk',
  },
  { name: 'file-size limit', begin: limitFileSize, shows: 'refusals', seconds: 3 },
  {
    name: 'files and directory made immutable',
    begin: makeImmutable,
    shows: 'refusals',
    seconds: 3,
  },
  {
    name: 'directory without write permission, server of another user',
    begin: changeMode('0500'),
    shows: 'answers',
    seconds: 2,
    on: 'another user',
  },
  {
    name: 'directory closed to the server, which is of another user',
    begin: changeMode('0000'),
    shows: 'refusals',
    seconds: 2,
    on: 'another user',
  },
  { name: 'access.db locked', begin: lock('access'), shows: 'refusals', seconds: 30 },
  { name: 'proxies.db locked', begin: lock('list'), shows: 'answers', seconds: 3 },
  {
    name: 'access.db truncated to nothing',
    begin: truncate('access', 0),
    shows: 'either',
    seconds: 2,
  },
  {
    name: 'access.db truncated to half',
    begin: truncate('access', 0.5),
    shows: 'either',
    seconds: 2,
  },
  {
    name: 'WAL of access.db truncated',
    begin: truncate('access', 0.4, '-wal'),
    shows: 'either',
    seconds: 2,
  },
  {
    name: 'proxies.db truncated to nothing',
    begin: truncate('list', 0),
    shows: 'refusals',
    seconds: 2,
  },
  {
    name: 'proxies.db truncated to a tenth',
    begin: truncate('list', 0.1),
    shows: 'refusals',
    seconds: 2,
  },
  {
    name: 'proxies.db truncated to half',
    begin: truncate('list', 0.5),
    shows: 'refusals',
    seconds: 2,
  },
  {
    name: 'proxies.db truncated at its end',
    begin: truncate('list', 0.99),
    shows: 'refusals',
    seconds: 2,
  },
  { name: 'proxies.db overwritten in part', begin: overwrite, shows: 'refusals', seconds: 2 },
  { name: 'access.db deleted', begin: remove('access', ['']), shows: 'refusals', seconds: 2 },
  {
    name: 'access.db deleted with its WAL',
    begin: remove('access', ['', '-wal', '-shm']),
    shows: 'refusals',
    seconds: 2,
  },
  {
    name: 'WAL of access.db deleted',
    begin: remove('access', ['-wal']),
    shows: 'either',
    seconds: 2,
  },
  { name: 'proxies.db deleted', begin: remove('list', ['']), shows: 'refusals', seconds: 2 },
  {
    name: 'proxies.db deleted with its WAL',
    begin: remove('list', ['', '-wal', '-shm']),
    shows: 'refusals',
    seconds: 2,
  },
  { name: 'proxies.db replaced by a copy', begin: replaceList, shows: 'either', seconds: 1 },
]
