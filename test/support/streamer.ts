/** What streamers of tests have in common: methods that are not expected to be called. */
import type { AnswerStreamer } from '../../src/api/answer.ts'

const unexpected = async (): Promise<never> => {
  throw new Error('the streamer was not expected to be asked')
}

/** A streamer of nothing, to be completed with what a test is about. */
export const NO_STREAMER: AnswerStreamer = {
  stream: unexpected,
  matches: unexpected,
  hasType: unexpected,
  refuseWaiting() {},
}
