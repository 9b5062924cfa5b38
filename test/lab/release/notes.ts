/** The notes of a release: the commits since the one before it, by area; and what was tested. */
import first from './first.md' with { type: 'text' }

/** `area: what changes` of each commit, the areas by name; commits without an area are `other`. */
export function changesOf(subjects: readonly string[]): string {
  const parts = subjects.map(
    subject => /^([a-z][\w, -]*): (.*)/s.exec(subject)?.slice(1) ?? ['other', subject],
  )
  const byArea = Map.groupBy(parts, ([area]) => area ?? '')
  return [...byArea]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(
      ([area, changes]) =>
        `### ${area}\n\n${changes.map(([, change]) => `- ${change}\n`).join('')}`,
    )
    .join('\n')
}

/** @param subjects of the commits since the release before, `null` for the first */
export const notesOf = (
  version: string,
  subjects: readonly string[] | null,
): string => `# proxylist ${version}

${subjects === null ? first : changesOf(subjects)}
## What was tested

The program for Linux on x64 ran in all tests. The programs for other machines come from the same source;
they were built, but not run.

Check what you download: \`sha256sum --check --ignore-missing SHA256SUMS\`.
`
