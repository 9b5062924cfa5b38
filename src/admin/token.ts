/** The one token of the admin listener: 256 random bits. The data directory has its SHA-256. */
import { timingSafeEqual } from 'node:crypto'
import { existsSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { CommandError, codeOf, reasonOf, StoreError } from '../lib/errors.ts'
import { requireRegular } from '../lib/files.ts'

/** The file in the data directory. */
export const TOKEN_FILE = 'admin-token'

const TOKEN_BYTES = 32
const HASH = /^[0-9a-f]{64}\n$/

const hashOf = (token: string): string => new Bun.CryptoHasher('sha256').update(token).digest('hex')

/** The stored hash; `null` if there is none or the file is malformed. @throws StoreError */
function storedHash(dir: string): string | null {
  const file = join(dir, TOKEN_FILE)
  try {
    requireRegular(statSync(file)) // a named pipe would halt the server
    const text = readFileSync(file, 'latin1')
    return HASH.test(text) ? text.trim() : null
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return null
    throw new StoreError(`${file} cannot be read: ${reasonOf(error)}`)
  }
}

/**
 * Creates a token of 43 characters that need no escaping in a URL. It revokes the previous one; `hadOne` says whether
 * there was one. `adopt` gives the file to the user of the service. @throws CommandError if it cannot be written
 */
export function newToken(dir: string, adopt: (file: string) => void) {
  const token = Buffer.from(crypto.getRandomValues(new Uint8Array(TOKEN_BYTES))).toString(
    'base64url',
  )
  const file = join(dir, TOKEN_FILE)
  const fresh = `${file}.new-${process.pid}`
  const hadOne = Bun.file(file).size > 0
  try {
    writeFileSync(fresh, `${hashOf(token)}\n`, { mode: 0o600, flag: 'wx' })
    adopt(fresh)
    renameSync(fresh, file)
  } catch (error) {
    if (existsSync(fresh)) rmSync(fresh)
    throw new CommandError(`cannot write ${file}: ${reasonOf(error)}`)
  }
  return { token, hadOne }
}

/** Compares a token with the stored one, which is read each time. @throws StoreError */
export function checkToken(dir: string, token: string): 'right' | 'wrong' | 'none' {
  const stored = storedHash(dir)
  if (stored === null) return 'none'
  return timingSafeEqual(Buffer.from(stored), Buffer.from(hashOf(token))) ? 'right' : 'wrong'
}
