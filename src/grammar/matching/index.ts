/** The code of a grammar worker. */
import { failureOf, type Library, Matching } from './matching.ts';
import type { Question, Reply } from './messages.ts';

/**
 * Handles requests one at a time, in order.
 * @param library the library, which may still be loading
 * @param memory returns the bytes that the library uses
 */
export function serveGrammars(
  library: Promise<Library>,
  memory: () => number,
  reply: (reply: Reply) => void,
): (message: { call: number; question: Question }) => void {
  const matching = library.then((found) => new Matching(found, memory));
  let tail: Promise<void> = Promise.resolve();
  return ({ call, question }) => {
    tail = tail.then(async () => {
      try {
        reply({ call, value: await (await matching).answer(question) });
      } catch (error) {
        reply({ call, failed: failureOf(error) });
      }
    });
  };
}

export type { Library } from './matching.ts';
