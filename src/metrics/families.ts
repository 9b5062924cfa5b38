/**
 * Owns the table of metrics: every family that is shown, in this order (contract G4). No label holds
 * a key, its id, a path that has no route, or anything else that clients choose.
 */
import { databaseFamilies, listFamilies, replicationFamilies } from './families/data.ts'
import { feedFamilies } from './families/feeds.ts'
import { processFamilies } from './families/process.ts'
import { accessFamilies, cacheFamilies, requestFamilies } from './families/requests.ts'
import type { Family } from './family.ts'

export const FAMILIES: readonly Family[] = [
  ...requestFamilies,
  ...accessFamilies,
  ...cacheFamilies,
  ...listFamilies,
  ...feedFamilies,
  ...databaseFamilies,
  ...replicationFamilies,
  ...processFamilies,
]
