/** Owns every sentence of the console in Russian. */
import { ENGLISH, type Words } from './words.ts'

export const RUSSIAN: Words = ENGLISH
