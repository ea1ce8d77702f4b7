/** Limits of a grammar: time for a mask, and memory. */
import { expect, it } from 'vitest';
import { createGrammarService, serveGrammars } from '../../src/grammar/index.ts';
import type { GrammarWorker, GrammarRequest, GrammarReply } from '../../src/grammar/matching/messages.ts';
import { startGrammarThread } from '../../src/platform/node-grammar.ts';
import { limitWasmMemory, loadGrammarLibrary } from '../../src/platform/node-grammar-library.ts';
import { ByteTokenizer } from '../support/scripted-engine.ts';
import { runsRest } from '../support/tier.ts';
import { entryPath } from '../support/host.ts';

const tokenizer = new ByteTokenizer();
const entry = entryPath('grammar-worker');
const tokens = (text: string) => [...new TextEncoder().encode(text)];

it('a mask that exceeds the timeout fails, and its worker is terminated and replaced', async () => {
  let ended = 0;
  let hangs = true;
  const startWorker = (): GrammarWorker => {
    const worker = startGrammarThread(entry);
    return {
      ...worker,
      post(message, transfer) {
        // A request that never gets a reply.
        if (!(hangs && message.question.kind === 'next')) worker.post(message, transfer);
      },
      terminate() {
        ended++;
        worker.terminate();
      },
    };
  };
  const times = { slowAfterMs: 1000, timeoutMs: 5000 };
  const grammars = createGrammarService({
    tokenizer,
    vocabSize: tokenizer.vocabSize,
    startWorker,
    timeouts: times,
  });
  const grammar = await grammars.compile({ kind: 'choice', texts: ['ab'] });
  await expect(grammar.start().next([])).rejects.toMatchObject({
    code: 'grammar_too_complex',
    message: expect.stringContaining('more than 5 s'),
  });
  expect(ended).toBe(1);
  hangs = false;
  const mask = await grammar.start().next(tokens('a'));
  expect(mask?.[3], 'b').toBe(1 << (98 - 96));
  await grammars.close();
});

it.runIf(runsRest)(
  'a grammar that needs too much memory is rejected, and the next one is compiled',
  async () => {
    const memory = limitWasmMemory(24 * 2 ** 20);
    let ended = 0;
    const startWorker = (): GrammarWorker => {
      let tell: (reply: GrammarReply) => void = () => {};
      const answer = serveGrammars(loadGrammarLibrary(), memory, (reply) => tell(reply));
      return {
        post: (message: { call: number; question: GrammarRequest }) => answer(message),
        onReply: (listener) => {
          tell = listener;
        },
        onEnd() {},
        terminate: () => {
          ended++;
        },
      };
    };
    const grammars = createGrammarService({ tokenizer, vocabSize: tokenizer.vocabSize, startWorker });
    const large = Array.from({ length: 9000 }, (_, index) => `${index * 7919} is one of many long texts`);
    await expect(grammars.compile({ kind: 'choice', texts: large })).rejects.toMatchObject({
      code: 'grammar_too_complex',
      message: expect.stringContaining('the grammar matcher failed'),
    });
    expect(ended).toBe(1);
    const small = await grammars.compile({ kind: 'choice', texts: ['ab'] });
    expect((await small.start().next([]))?.[3]).toBe(1 << (97 - 96));
    await grammars.close();
  },
);

it('a count of characters continues after its worker dies', async () => {
  const workers: GrammarWorker[] = [];
  const startWorker = () => {
    const worker = startGrammarThread(entry);
    workers.push(worker);
    return worker;
  };
  const grammars = createGrammarService({ tokenizer, vocabSize: tokenizer.vocabSize, startWorker });
  const schema = { type: 'string', maxLength: 3 };
  const constraint = (await grammars.compile({ kind: 'json_schema', schema })).start();
  await constraint.next(tokens('"ab'));
  workers[0]?.terminate();
  const mask = await constraint.next(tokens('c'));
  expect(workers).toHaveLength(2);
  expect(mask?.map((word) => word >>> 0)).toEqual(
    Uint32Array.from({ length: mask?.length ?? 0 }, (_, word) => (word === 1 ? 1 << (34 - 32) : 0)),
  );
  await grammars.close();
});
