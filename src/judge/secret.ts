/** The file with the secret that checker and judge share. */
import { stat, writeFile } from 'node:fs/promises'
import { CommandError, codeOf, reasonOf } from '../lib/errors.ts'
import { readRegularFile } from '../lib/files.ts'
import { type Keys, keysOf, SECRET_BYTES } from './protocol.ts'

/** `SECRET_BYTES` in base64url, alone on a line. */
const TEXT = /^[A-Za-z0-9_-]{43}\n?$/

const unusable = (file: string, why: string): CommandError =>
  new CommandError(`the secret ${file} ${why}`, 2)

/** Creates a secret that only its owner can read, unless the file exists. Returns whether it did. */
async function createSecret(file: string): Promise<boolean> {
  const secret = Buffer.from(crypto.getRandomValues(new Uint8Array(SECRET_BYTES)))
  const text = `${secret.toString('base64url')}\n`
  try {
    await writeFile(file, text, { mode: 0o600, flag: 'wx', flush: true })
    return true
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return false
    throw unusable(file, `cannot be created: ${reasonOf(error)}`)
  }
}

/** Derives the keys from the secret in a file, which it makes if it is missing. @throws CommandError (usage) */
export async function openSecret(file: string): Promise<{ keys: Keys; isNew: boolean }> {
  const isNew = await createSecret(file)
  const text = await readRegularFile(file).then(String, error => {
    throw unusable(file, `cannot be read: ${reasonOf(error)}`)
  })
  // This comes before the mode, because chmod is wrong advice for another program's file.
  if (!TEXT.test(text)) throw unusable(file, 'is not one; name another file, which is then made')
  const { mode } = await stat(file)
  if (process.platform !== 'win32' && (mode & 0o077) !== 0) {
    throw unusable(file, `can be read by others; make it yours alone with: chmod 600 ${file}`)
  }
  return { keys: keysOf(Buffer.from(text.trim(), 'base64url')), isNew }
}
