/** The notes of a release: the commits since the one before it, by area; and what was tested. */

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

/** What 1.0 is, for those who meet it here first. */
const FIRST = `proxylist serves filtered lists of proxy servers over HTTP, from one executable on a small server.

- **Lists:** \`import\` reads what the world publishes: plain text, CSV, JSON, Markdown, with or without types.
  Feeds import a list again on a schedule. A checker of your own finds out which proxies work.
- **API:** \`GET /api\` filters by type, anonymity, country, city, speed, ping, age and services. It answers in
  TXT, JSON, CSV or NDJSON. \`/docs\` explains it to customers in English and Russian.
- **Keys and plans:** limits by second and day, networks a day, records an answer. Limits are exact, also
  after a crash, and for several servers on one data directory.
- **Operation:** a console in the browser, metrics for Prometheus, alerts, \`doctor\`, backups while the server runs,
  upgrades without a lost request.
- **Many machines:** servers that share a PostgreSQL database.

To start: \`proxylist import FILE\`, \`proxylist keys add\`, \`proxylist serve\`. \`proxylist help\` has the manual.
`

/** @param subjects of the commits since the release before, `null` for the first */
export const notesOf = (
  version: string,
  subjects: readonly string[] | null,
): string => `# proxylist ${version}

${subjects === null ? FIRST : changesOf(subjects)}
## What was tested

The program for Linux on x64 ran in all tests. The programs for other machines come from the same source;
they were built, but not run.

Check what you download: \`sha256sum --check --ignore-missing SHA256SUMS\`.
`
