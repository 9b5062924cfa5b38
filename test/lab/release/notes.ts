/** The notes of a release: the commits since the one before it, by area; and what was tested. */
import first from './first.md' with { type: 'text' }

/** `area: what changes` of each commit, the areas by name; commits without an area are `other`. */
function changesOf(subjects: readonly string[]): string {
  const areaOf = (subject: string): string => /^([a-z][\w, -]*): /.exec(subject)?.[1] ?? 'other'
  const byArea = Object.entries(Object.groupBy(subjects, areaOf)).sort()
  const partOf = (area: string, of: readonly string[]): string =>
    `### ${area}\n\n${of.map(each => `- ${each.replace(`${area}: `, '')}\n`).join('')}`
  return byArea.map(([area, of = []]) => partOf(area, of)).join('\n')
}

/** The notes. `subjects` are those of the commits since the release before, `null` for the first. */
export const notesOf = (
  version: string,
  subjects: readonly string[] | null,
): string => `# proxylist ${version}

${subjects === null ? first : changesOf(subjects)}
## What was tested

The program for Linux on x64 ran in all tests. The programs for other machines were built, but not run.

Check what you download: \`sha256sum --check --ignore-missing SHA256SUMS\`.
`
