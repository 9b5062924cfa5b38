/** Owns moving keys between databases: reading them as they are stored, and storing them so. */
import type { Database } from 'bun:sqlite'
import type { StoredKey } from '../../access/key.ts'
import type { LoadProblem } from '../../access/ports.ts'

type StoredRow = Omit<StoredKey, 'oldSecrets'>
type SecretRow = { keyId: string; hash: Uint8Array; expiresAt: number }

/** The keys of an open database; `idOf` finds the key of a secret by its hash. */
export function createKeyDump(db: Database, idOf: (hash: Uint8Array) => string | null) {
  const hasPlan = db.prepare<unknown, [string]>('select 1 from plans where name = ?')
  const hasId = db.prepare<unknown, [string]>('select 1 from keys where id = ?')
  const insert = db.prepare(
    `insert into keys (id, hash, prefix, label, plan, created_at, expires_at, revoked_at)
     values (?, ?, ?, ?, ?, ?, ?, ?)`,
  )
  const insertOld = db.prepare(
    'insert into old_secrets (hash, key_id, expires_at) values (?, ?, ?)',
  )

  function problemOf({ id, hash, plan, oldSecrets }: StoredKey, index: number): LoadProblem | null {
    for (const secret of [hash, ...oldSecrets.map(old => old.hash)]) {
      const known = idOf(secret)
      if (known !== null) return { kind: 'known-secret', index, id: known }
    }
    if (hasId.get(id) !== null) return { kind: 'known-id', index }
    return plan === null || hasPlan.get(plan) !== null ? null : { kind: 'unknown-plan', index }
  }

  function store(key: StoredKey): void {
    const { id, hash, prefix, label, plan, createdAt, expiresAt, revokedAt, oldSecrets } = key
    insert.run(id, hash, prefix, label, plan, createdAt, expiresAt, revokedAt)
    for (const old of oldSecrets) insertOld.run(old.hash, id, old.expiresAt)
  }

  return {
    /** Stores a key as it is, in the transaction of the caller. */
    store,

    dump: db.transaction((): StoredKey[] => {
      const rows = db
        .prepare<StoredRow, []>(
          `select id, hash, prefix, label, plan, created_at as createdAt,
             expires_at as expiresAt, revoked_at as revokedAt
           from keys order by created_at, id`,
        )
        .all()
      const secrets = db
        .prepare<SecretRow, []>(
          `select key_id as keyId, hash, expires_at as expiresAt from old_secrets
           order by expires_at`,
        )
        .all()
      const byKey = Map.groupBy(secrets, ({ keyId }) => keyId)
      return rows.map(row => ({
        ...row,
        oldSecrets: (byKey.get(row.id) ?? []).map(({ hash, expiresAt }) => ({ hash, expiresAt })),
      }))
    }),

    /** Keys of one call that are the same are found too: each is stored before the next is seen. */
    load(keys: readonly StoredKey[], isTrial: boolean): LoadProblem[] {
      db.run('begin immediate')
      try {
        const problems: LoadProblem[] = []
        for (const [index, key] of keys.entries()) {
          const problem = problemOf(key, index)
          if (problem) problems.push(problem)
          else store(key)
        }
        db.run(problems.length === 0 && !isTrial ? 'commit' : 'rollback')
        return problems
      } catch (error) {
        if (db.inTransaction) db.run('rollback')
        throw error
      }
    },
  }
}
