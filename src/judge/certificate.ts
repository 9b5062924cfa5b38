/**
 * The certificate of the judge and its key, in two files that another program renews. The judge reads them again every
 * 30 seconds, and keeps the old pair while the new one is unusable.
 */
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { createSecureContext, type SecureContext } from 'node:tls'
import { CommandError, messageOf } from '../lib/errors.ts'
import { readNamed } from '../lib/files.ts'
import { formatInstant } from '../lib/time.ts'

/** Paths of PEM files: the certificate with its chain, and its key. */
export type CertificateFiles = { cert: string; key: string }

export type Certificate = {
  context(): SecureContext
  /** Its names and its expiry, for people. */
  shown(): string
  /** Reads the files again; never rejects. */
  refresh(): Promise<void>
}

const readPair = ({ cert, key }: CertificateFiles): Promise<string[]> =>
  Promise.all([cert, key].map(async file => (await readNamed(file)).toString('latin1')))

/** Runs `parse`. @throws CommandError (usage) with `sentence` when that fails. */
function orSay<T>(parse: () => T, sentence: string): T {
  try {
    return parse()
  } catch {
    throw new CommandError(sentence, 2)
  }
}

const parseCertificate = (text: string, file: string): X509Certificate =>
  orSay(() => new X509Certificate(text), `${file} is not a certificate in PEM`)

/** Reads the certificate of an authority, in PEM. @throws CommandError (usage) when it is unusable. */
export async function readAuthorities(file: string): Promise<string> {
  const text = String(await readNamed(file))
  parseCertificate(text, file)
  return text
}

/** Parses a pair for TLS. @throws CommandError (usage) when it is unusable. */
function usePair(files: CertificateFiles, [cert = '', key = '']: readonly string[]) {
  const parsed = parseCertificate(cert, files.cert)
  const context = orSay(() => {
    createPrivateKey(key) // a context without a key is no error
    return createSecureContext({ cert, key })
  }, `${files.key} is not the private key of ${files.cert}, in PEM without a password`)
  const names = (parsed.subjectAltName ?? parsed.subject).replaceAll('DNS:', '')
  return { context, shown: `${names}, valid until ${formatInstant(Date.parse(parsed.validTo))}` }
}

export async function openCertificate(
  files: CertificateFiles,
  say: (sentence: string) => void,
): Promise<Certificate> {
  let pair = await readPair(files)
  let used = usePair(files, pair)
  let problem = ''
  return {
    context: () => used.context,
    shown: () => used.shown,
    async refresh() {
      try {
        const found = await readPair(files)
        if (found.join() !== pair.join()) {
          used = usePair(files, found)
          pair = found
          say(`the certificate has changed: ${used.shown}`)
        }
        problem = ''
      } catch (error) {
        if (messageOf(error) !== problem) say(`${messageOf(error)}; still using ${used.shown}`)
        problem = messageOf(error)
      }
    },
  }
}
