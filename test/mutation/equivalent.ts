/**
 * Owns the mutants that no test can tell from the program, because they do the same: each with
 * its reason. A mutant is known by its source and the line as it became.
 */
export type Equivalent = { source: string; line: string; why: string }

export const EQUIVALENT: readonly Equivalent[] = []
