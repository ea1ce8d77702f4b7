/** What runs in a grammar worker. */
import { failureOf, type Library, Matching } from './matching.ts';
import type { Question, Reply } from './messages.ts';

/**
 * Answers questions one at a time, in order.
 * @param library may still be on its way
 * @param memory bytes that it holds
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
