/** What must not outlive a run: temporary directories, and everything that is registered. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

type Undo = () => void | Promise<void>

const undos = new Set<Undo>()
let isOver = false

/** Registers `undo` for `cleanUp`; the returned function removes it. */
export function onCleanUp(undo: Undo): () => void {
  if (isOver) void undo()
  else undos.add(undo)
  return () => void undos.delete(undo)
}

/** Undoes everything, the latest first; call it in `afterAll`, or at the end of a part of a run. */
export async function cleanUp(): Promise<void> {
  for (const undo of [...undos].reverse()) {
    undos.delete(undo)
    await undo()
  }
}

/** Undoes everything, and from now on undoes at once what is registered. */
export async function cleanUpForGood(): Promise<void> {
  isOver = true
  await cleanUp()
}

/** A new directory, removed by `cleanUp`. */
export function temporaryDirectory(name = 'test', parent = tmpdir()): string {
  const dir = mkdtempSync(join(parent, `proxylist-${name}-`))
  onCleanUp(() => rmSync(dir, { recursive: true, force: true }))
  return dir
}
