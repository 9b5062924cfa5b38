/**
 * Owns what the TypeScript compiler is used for: the mutations of a source file, and which of them
 * compile. The others do not need a test: `make check` finds them.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { API } from 'typescript/unstable/async'
import { ROOT } from '../../support/program.ts'
import { type Mutation, mutationsOf } from './mutations.ts'

/** One mutated file: the place, the text before and after, and the text of the file. */
export type Mutant = {
  source: string
  line: number
  before: string
  after: string
  /** The mutated line without its indentation, which identifies the mutant in `equivalent.ts`. */
  mutatedLine: string
  text: string
}

/** Errors that a mutant may have: something is unused, unreachable or not returned. */
const HARMLESS = new Set([6133, 6138, 6192, 6196, 6198, 6199, 7027, 7030])

const inOneLine = (text: string): string => text.replace(/\s+/g, ' ').trim()

function mutantOf(source: string, text: string, mutation: Mutation): Mutant {
  const { start, end } = mutation
  const mutated = text.slice(0, start) + mutation.text + text.slice(end)
  const line = text.slice(0, start).split('\n').length
  return {
    source,
    line,
    before: inOneLine(text.slice(start, end)),
    after: inOneLine(mutation.text),
    mutatedLine: inOneLine(mutated.split('\n')[line - 1] ?? ''),
    text: mutated,
  }
}

/** Opens the compiler on this project; `close` ends it. */
export async function openCompiler() {
  const texts = new Map<string, string>()
  const api = new API({ cwd: ROOT, fs: { readFile: path => texts.get(path) } })
  const openProject = join(ROOT, 'tsconfig.json')
  let mutatedBefore: string | null = null

  async function programWith(changed: readonly string[]) {
    const snapshot = await api.updateSnapshot({
      openProject,
      fileChanges: { changed: [...changed] },
    })
    const [project] = snapshot.getProjects()
    if (!project) throw new Error(`${openProject} is not a project`)
    return { program: project.program, dispose: () => snapshot.dispose() }
  }

  return {
    /** Every mutant of a source file. */
    async mutantsOf(source: string): Promise<Mutant[]> {
      const { program, dispose } = await programWith([])
      const file = await program.getSourceFile(join(ROOT, source))
      if (!file) throw new Error(`${source} is not part of the project`)
      const text = readFileSync(join(ROOT, source), 'utf8')
      const mutants = mutationsOf(file).map(mutation => mutantOf(source, text, mutation))
      await dispose()
      return mutants
    },
    async compiles({ source, text }: Mutant): Promise<boolean> {
      const path = join(ROOT, source)
      texts.clear()
      texts.set(path, text)
      const { program, dispose } = await programWith([path, mutatedBefore ?? path])
      mutatedBefore = path
      const found = await program.getSyntacticDiagnostics(path)
      const more = found.length > 0 ? [] : await program.getSemanticDiagnostics(path)
      await dispose()
      return [...found, ...more].every(({ code }) => HARMLESS.has(code))
    },
    close: () => api.close(),
  }
}
