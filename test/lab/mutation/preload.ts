/** Loaded before the tests of a mutant: one failure is enough, so properties do not shrink. */
import fc from 'fast-check'

fc.configureGlobal({ endOnFailure: true, seed: Number(process.env.MUTATION_SEED) })
