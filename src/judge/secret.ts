/** The file of the secret that checker and judge share. */
import { existsSync } from 'node:fs'
import { link, rm, stat, writeFile } from 'node:fs/promises'
import { CommandError, codeOf, reasonOf } from '../lib/errors.ts'
import { readRegularFile } from '../lib/files.ts'
import { type Keys, keysOf, SECRET_BYTES } from './protocol.ts'

/** `SECRET_BYTES` in base64url, alone on a line. */
const TEXT = /^[A-Za-z0-9_-]{43}\n?$/

const unusable = (file: string, why: string): CommandError =>
  new CommandError(`the secret ${file} ${why}`, 2)

/** Makes a secret that only its owner can read, unless another process did; returns whether it did. */
async function makeSecret(file: string): Promise<boolean> {
  const secret = Buffer.from(crypto.getRandomValues(new Uint8Array(SECRET_BYTES)))
  const text = `${secret.toString('base64url')}\n`
  const unseen = `${file}.${crypto.randomUUID()}`
  try {
    await writeFile(unseen, text, { mode: 0o600, flag: 'wx', flush: true })
    await link(unseen, file) // whole: judge and checker may begin at once
    return true
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return false
    throw unusable(file, `cannot be made: ${reasonOf(error)}`)
  } finally {
    await rm(unseen, { force: true })
  }
}

/**
 * The keys that follow from the secret in a file, which is made when there is none.
 * @throws CommandError (usage) when it cannot be used, or when others can read it.
 */
export async function openSecret(file: string): Promise<{ keys: Keys; isNew: boolean }> {
  const isNew = !existsSync(file) && (await makeSecret(file))
  const text = await readRegularFile(file).then(String, error => {
    throw unusable(file, `cannot be read: ${reasonOf(error)}`)
  })
  // First: the mode of a file of another program must not be changed.
  if (!TEXT.test(text)) throw unusable(file, 'is not one; name another file, which is then made')
  const { mode } = await stat(file)
  if (process.platform !== 'win32' && (mode & 0o077) !== 0) {
    throw unusable(file, `can be read by others; make it yours alone with: chmod 600 ${file}`)
  }
  return { keys: keysOf(Buffer.from(text.trim(), 'base64url')), isNew }
}
