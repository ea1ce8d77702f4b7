/** The code of a grammar worker. */
import { toFailure, type XGrammarLibrary, GrammarRuntime } from './grammar-runtime.ts';
import type { GrammarRequest, GrammarReply } from './messages.ts';

/**
 * Handles requests one at a time, in order.
 * @param library the library, which may still be loading
 * @param memory returns the bytes that the library uses
 */
export function serveGrammars(
  library: Promise<XGrammarLibrary>,
  memory: () => number,
  reply: (reply: GrammarReply) => void,
): (message: { call: number; question: GrammarRequest }) => void {
  const runtime = library.then((loaded) => new GrammarRuntime(loaded, memory));
  let lastReply: Promise<void> = Promise.resolve();
  return ({ call, question }) => {
    lastReply = lastReply.then(async () => {
      try {
        reply({ call, value: await (await runtime).handle(question) });
      } catch (error) {
        reply({ call, failed: toFailure(error) });
      }
    });
  };
}

export type { XGrammarLibrary } from './grammar-runtime.ts';
