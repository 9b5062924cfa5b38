/** When the certificates end that connections to a database depend on. */
import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { connect, isIP } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { eachHost } from '../config/parsers.ts'
import { inTime } from '../lib/clock.ts'
import { StoreError } from '../lib/errors.ts'
import { finding, type Result } from '../lib/examination.ts'
import { DAY_MS, formatDay, utcDay } from '../lib/time.ts'
import { shownHost } from './connection.ts'

/** Asks for TLS; a server that offers it answers `S` (documentation of the protocol, "SSLRequest"). */
const TLS_REQUEST = Uint8Array.of(0, 0, 0, 8, 4, 210, 22, 47)

/** The certificate that a host shows, which nothing verifies here; `null`: it offers no TLS. */
async function shownBy(url: string, timeoutMs: number): Promise<X509Certificate | null> {
  const { hostname, port } = new URL(url)
  const host = hostname.replace(/^\[|\]$/g, '')
  const { promise, resolve, reject } = Promise.withResolvers<X509Certificate | null>()
  const lost = (): void => reject(new StoreError('the connection was lost'))
  const socket = connect(Number(port) || 5432, host, () => socket.write(TLS_REQUEST))
  socket.on('error', lost).on('close', lost)
  socket.once('data', answer => {
    if (answer.toString() !== 'S') return resolve(null)
    const name = isIP(host) === 0 ? { servername: host } : {}
    const secure = connectTls({ ...name, socket, rejectUnauthorized: false }, () =>
      resolve(new X509Certificate(secure.getPeerCertificate().raw)),
    )
    secure.on('error', lost)
  })
  const late = (): Error => new StoreError('it does not answer')
  return inTime(promise, timeoutMs, late).finally(() => socket.destroy())
}

const PEM = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g
const certificatesIn = (file: string): X509Certificate[] =>
  (readFileSync(file, 'utf8').match(PEM) ?? []).map(text => new X509Certificate(text))

/** When a certificate ends; `null`: its host could not be asked. */
type Ending = { of: string; endMs: number | null }

const endingOf = (of: string, { validTo }: X509Certificate): Ending => ({
  ...{ of, endMs: Date.parse(validTo) },
})

/** The certificates of this client, and of each host with its authority. */
export async function readCertificates(url: string, timeoutMs: number): Promise<Ending[]> {
  const hosts = eachHost(url).filter(each => new URL(each).hostname !== '')
  const { searchParams } = new URL(hosts[0] ?? url)
  if ((searchParams.get('sslmode') ?? 'disable') === 'disable') return []
  const inFilesOf = (name: string) => searchParams.getAll(name).flatMap(certificatesIn)
  const authorities = inFilesOf('sslrootcert')
  const ofHosts = hosts.map(async (each): Promise<Ending[]> => {
    const of = shownHost(each)
    try {
      const shown = await shownBy(each, timeoutMs)
      if (shown === null) return []
      const others = authorities.filter(
        each => shown.checkIssued(each) && each.fingerprint256 !== shown.fingerprint256,
      )
      const issuers = others.map(issuer => endingOf(`the authority of ${of}`, issuer))
      return [endingOf(of, shown), ...issuers]
    } catch {
      return [{ of, endMs: null }]
    }
  })
  const own = inFilesOf('sslcert').map(each => endingOf('this client', each))
  return [...own, ...(await Promise.all(ofHosts)).flat()]
}

const NOTED_DAYS = 30
const WRONG_DAYS = 7

export function judgeCertificates(endings: readonly Ending[], nowMs: number): Result {
  const problems: string[] = []
  const notes: string[] = []
  for (const { of, endMs } of endings) {
    if (endMs === null) {
      notes.push(`the certificate of ${of} cannot be seen: the host does not answer`)
      continue
    }
    const days = (endMs - nowMs) / DAY_MS
    const ends = days < 0 ? 'has ended on' : 'ends on'
    const sentence = `the certificate of ${of} ${ends} ${formatDay(utcDay(endMs))}`
    if (days < WRONG_DAYS) problems.push(sentence)
    else if (days < NOTED_DAYS) notes.push(sentence)
  }
  const all = endings.length === 0 ? 'none is used' : `none ends within ${NOTED_DAYS} days`
  return finding(problems, all, notes)
}
