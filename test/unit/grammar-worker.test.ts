import { afterEach, describe, expect, it } from 'vitest';
import type { Constraint } from '../../src/engine/index.ts';
import {
  type GrammarService,
  type GrammarServiceOptions,
  createGrammarService,
} from '../../src/grammar/index.ts';
import { GrammarRuntime } from '../../src/grammar/matching/grammar-runtime.ts';
import type { GrammarWorker, GrammarRequest, GrammarReply } from '../../src/grammar/matching/messages.ts';
import { startGrammarThread } from '../../src/platform/node-grammar.ts';
import { limitWasmMemory, loadGrammarLibrary } from '../../src/platform/node-grammar-library.ts';
import { ByteTokenizer } from '../support/scripted-engine.ts';
import { runsRest } from '../support/tier.ts';
import { entryPath } from '../support/host.ts';

const entry = entryPath('grammar-worker');
const tokenizer = new ByteTokenizer();
const imStart = 256;
const ends = [257, 258];

/** A short grammar that XGrammar compiles for minutes. */
const endless = `root ::= ${Array.from({ length: 300 }, (_, index) => `([a-z]{0,${900 + index}} "${index}")`).join(' | ')}`;

let opened: GrammarService | undefined;
afterEach(async () => {
  await opened?.close();
  opened = undefined;
});

/** Grammars over bytes that record the requests to their workers. */
function open(options: Partial<GrammarServiceOptions> = {}) {
  const workers: GrammarWorker[] = [];
  const requests: GrammarRequest[] = [];
  const grammars = createGrammarService({
    tokenizer,
    vocabSize: tokenizer.vocabSize,
    // Ordinary requests must not be slow, even on a slow machine.
    timeouts: { slowAfterMs: 60_000, timeoutMs: 120_000 },
    startWorker() {
      const worker = startGrammarThread(entry);
      workers.push(worker);
      return {
        ...worker,
        post(message, transfer) {
          requests.push(message.question);
          worker.post(message, transfer);
        },
      };
    },
    ...options,
  });
  opened = grammars;
  const count = (kind: GrammarRequest['kind']) => requests.filter((one) => one.kind === kind).length;
  return { grammars, workers, count };
}

const allowed = (mask: Uint32Array | undefined): number[] =>
  Array.from({ length: (mask?.length ?? 0) * 32 }, (_, id) => id).filter(
    (id) => (((mask?.[id >> 5] ?? 0) >>> (id & 31)) & 1) === 1,
  );
const codes = (text: string): number[] => [...new TextEncoder().encode(text)];

async function write(constraint: Constraint, text: string): Promise<number[]> {
  let mask = await constraint.next([]);
  for (const id of codes(text)) {
    expect(allowed(mask)).toContain(id);
    mask = await constraint.next([id]);
  }
  return allowed(mask);
}

describe('masks', () => {
  it('allow what may follow, and after the last text only end tokens', async () => {
    const { grammars } = open();
    const grammar = await grammars.compile({ kind: 'choice', texts: ['ab', 'ac'] });
    const constraint = grammar.start();
    expect(allowed(await constraint.next([]))).toEqual(codes('a'));
    expect(allowed(await constraint.next([])), 'asked again').toEqual(codes('a'));
    expect(allowed(await constraint.next(codes('a')))).toEqual(codes('bc'));
    expect(allowed(await constraint.next(codes('b')))).toEqual(ends);
    expect(allowed(await constraint.next([257]))).toEqual(ends);
    constraint.close();
    await expect(constraint.next([])).rejects.toThrow(/closed/);
  });

  it('accept several tokens at once, and reject tokens that the grammar does not allow', async () => {
    const { grammars } = open();
    const grammar = await grammars.compile({ kind: 'choice', texts: ['abc'] });
    const constraint = grammar.start();
    expect(allowed(await constraint.next(codes('ab')))).toEqual(codes('c'));
    await expect(constraint.next(codes('x'))).rejects.toThrow(/does not allow token 120/);
    constraint.close();
  });

  it('allow no control tokens except visible ones, by their text', async () => {
    const { grammars } = open();
    const text = await grammars.compile({ kind: 'structural', format: { type: 'any_text' } });
    const some = allowed(await text.start().next([]));
    expect(some).toContain(65);
    expect(some).not.toContain(imStart);
    const visible = new Set([imStart]);
    const source = { kind: 'choice', texts: ['<|im_start|>x'] } as const;
    const shown = (await grammars.compile(source, { visible })).start();
    expect(allowed(await shown.next([]))).toEqual([...codes('<'), imStart]);
    expect(allowed(await shown.next([imStart]))).toEqual(codes('x'));
    const hidden = (await grammars.compile(source)).start();
    expect(allowed(await hidden.next([]))).toEqual(codes('<'));
  });

  it('cover a padded vocabulary', async () => {
    const { grammars } = open({ vocabSize: 1000 });
    const grammar = await grammars.compile({ kind: 'structural', format: { type: 'any_text' } });
    const mask = await grammar.start().next([]);
    expect(mask).toHaveLength(32);
    expect(Math.max(...allowed(mask))).toBe(258);
  });
});

describe('compiled grammars', () => {
  it('are compiled once for a source, also for concurrent callers', async () => {
    const { grammars, count, workers } = open();
    expect(workers).toHaveLength(0);
    await Promise.all(
      Array.from({ length: 5 }, () => grammars.compile({ kind: 'json_schema', schema: { type: 'integer' } })),
    );
    await grammars.compile({ kind: 'json_schema', schema: { type: 'integer' } });
    expect(count('compile')).toBe(1);
    await grammars.compile({ kind: 'json_schema', schema: { type: 'string' } });
    expect(count('compile')).toBe(2);
    expect(workers).toHaveLength(1);
  });

  it('are limited in number, and those in use are kept', async () => {
    const { grammars, count } = open({ cache: { count: 2 } });
    const first = (await grammars.compile({ kind: 'choice', texts: ['first'] })).start();
    expect(allowed(await first.next([]))).toEqual(codes('f'));
    for (let index = 0; index < 5; index++) await grammars.compile({ kind: 'choice', texts: [`${index}`] });
    expect(count('forget')).toBe(3);
    expect(allowed(await first.next(codes('f')))).toEqual(codes('i'));
    first.close();
    await grammars.compile({ kind: 'choice', texts: ['4'] });
    expect(count('compile'), 'kept').toBe(6);
    expect(count('forget'), 'freed with its last user').toBe(4);
  });

  it('that fail are rejected with a reason, and compiled again on the next call', async () => {
    const { grammars, count } = open();
    const source = { kind: 'json_schema', schema: { type: 'array', uniqueItems: true } } as const;
    for (let attempt = 0; attempt < 2; attempt++) {
      await expect(grammars.compile(source)).rejects.toMatchObject({
        name: 'GrammarError',
        code: 'unsupported_schema',
        path: '',
        message: expect.stringContaining('uniqueItems'),
      });
    }
    expect(count('compile')).toBe(2);
  });

  it('leak no memory after thousands of answers', async () => {
    const memory = limitWasmMemory();
    const library = await loadGrammarLibrary();
    const matching = new GrammarRuntime(library, memory);
    const vocabulary = {
      bytes: Uint8Array.from({ length: 256 }, (_, byte) => byte),
      ends: Uint32Array.from({ length: 256 }, (_, byte) => byte + 1),
      size: 257,
      endIds: [256],
    };
    await matching.handle({ kind: 'vocabulary', vocabulary });
    const round = async (number: number, frees = true) => {
      const schema = {
        type: 'object',
        properties: { [`p${number % 7}`]: { type: 'string', maxLength: 20 } },
      };
      await matching.handle({
        kind: 'compile',
        grammar: number,
        source: { kind: 'json_schema', schema },
        visible: [],
      });
      for (let matcher = 0; matcher < 20; matcher++) {
        await matching.handle({ kind: 'start', matcher, grammar: number, accepted: codes('{') });
        await matching.handle({ kind: 'next', matcher, accepted: codes('"p') });
        if (frees) await matching.handle({ kind: 'stop', matcher });
      }
      if (frees) await matching.handle({ kind: 'forget', grammar: number });
    };
    for (let number = 0; number < 20; number++) await round(number);
    const before = memory();
    for (let number = 20; number < 220; number++) await round(number);

    expect(memory()).toBe(before);
    // A leak would be visible with this number of answers.
    for (let number = 220; number < 420; number++) await round(number, false);
    expect(memory()).toBeGreaterThan(before);
  });
});

describe('a grammar that never ends', () => {
  const times = { slowAfterMs: 800, timeoutMs: 3000 };

  it('is rejected at the timeout, and does not delay others', async () => {
    const { grammars, workers } = open({ timeouts: times });
    const json = (await grammars.compile({ kind: 'json' })).start();
    await write(json, '{"a": [1');
    const late = grammars.compile({ kind: 'ebnf', text: endless });
    late.catch(() => {});
    // Sent after the endless one, and moved to a second worker.
    expect(allowed(await json.next(codes(', 2')))).toContain(']'.charCodeAt(0));
    const other = (await grammars.compile({ kind: 'choice', texts: ['x'] })).start();
    expect(allowed(await other.next([]))).toEqual(codes('x'));
    expect(workers.length).toBeGreaterThan(1);
    await expect(late).rejects.toMatchObject({
      code: 'grammar_too_complex',
      message: expect.stringContaining('3 s'),
    });
    expect(allowed(await json.next(codes(']}')))).toEqual(ends);
    await expect(grammars.compile({ kind: 'ebnf', text: endless })).rejects.toMatchObject({
      code: 'grammar_too_complex',
    });
    expect(allowed(await other.next(codes('x')))).toEqual(ends);
  });

  it('with many slow masks is rejected when their total time exceeds the timeout', async () => {
    const delayed = () => {
      const worker = startGrammarThread(entry);
      const slow = new Set<number>();
      return {
        ...worker,
        post(message: { call: number; question: GrammarRequest }, transfer: readonly ArrayBuffer[]) {
          if (message.question.kind === 'next') slow.add(message.call);
          worker.post(message, transfer);
        },
        onReply: (listener: (reply: GrammarReply) => void) =>
          worker.onReply((reply) => setTimeout(() => listener(reply), slow.has(reply.call) ? 800 : 0)),
      };
    };
    const { grammars } = open({ startWorker: delayed, timeouts: { slowAfterMs: 2900, timeoutMs: 3000 } });
    const grammar = await grammars.compile({ kind: 'regex', pattern: 'a*' });
    const slow = grammar.start();
    const masks = async () => {
      for (;;) await slow.next(codes('a'));
    };
    await expect(masks()).rejects.toThrow(/took more than 3 s/);
    expect(allowed(await grammar.start().next(codes('a')))).toEqual([...codes('a'), ...ends]);
  });

  it('is abandoned when its client aborts', async () => {
    const { grammars } = open({ timeouts: times });
    const reason = new Error('gone away');
    const stop = new AbortController();
    const late = grammars.compile({ kind: 'ebnf', text: endless }, { signal: stop.signal });
    stop.abort(reason);
    await expect(late).rejects.toBe(reason);
    await expect(grammars.compile({ kind: 'json' }, { signal: AbortSignal.abort(reason) })).rejects.toBe(
      reason,
    );
  });

  it.runIf(runsRest)('sent by many at a time fails for them, and the host continues', async () => {
    const { grammars } = open({ timeouts: times });
    const attempts = Array.from({ length: 4 }, (_, index) =>
      grammars.compile({ kind: 'ebnf', text: `${endless} | "x${index}"` }).catch((error: unknown) => error),
    );
    for (const error of await Promise.all(attempts))
      expect(error).toMatchObject({ code: 'grammar_too_complex' });
    const after = (await grammars.compile({ kind: 'choice', texts: ['x'] })).start();
    expect(allowed(await after.next([]))).toEqual(codes('x'));
  });
});

describe('many grammars at a time', () => {
  it('are compiled one by one between the masks of running answers', async () => {
    const { grammars, workers } = open();
    const json = (await grammars.compile({ kind: 'json' })).start();
    await write(json, '{');
    const order: string[] = [];
    const texts = (index: number) => Array.from({ length: 300 }, (_, n) => `${index} ${n}`);
    const compiled = Array.from({ length: 20 }, async (_, index) => {
      await grammars.compile({ kind: 'choice', texts: texts(index) });
      order.push('compiled');
    });
    await json.next(codes('"'));
    order.push('mask');
    await Promise.all(compiled);
    expect(order.indexOf('mask')).toBeLessThan(3);
    expect(workers).toHaveLength(1);
  });
});

describe('many grammars that never end', () => {
  it.runIf(runsRest)('are rejected sooner when too many are slow, and other answers continue', async () => {
    // The masks of the other answers share two busy cores with the grammars that never end, and must not count as slow.
    const { grammars, workers } = open({ timeouts: { slowAfterMs: 2000, timeoutMs: 600_000 } });
    const json = (await grammars.compile({ kind: 'json' })).start();
    await write(json, '{"a": [1');
    const attempts = Array.from({ length: 9 }, (_, index) =>
      grammars.compile({ kind: 'ebnf', text: `${endless} | "x${index}"` }).catch((error: unknown) => error),
    );
    for (let n = 0; n < 9; n++) expect(allowed(await json.next(codes(', 2')))).toContain(codes(']')[0]);
    const other = (await grammars.compile({ kind: 'choice', texts: ['x'] })).start();
    expect(allowed(await other.next([]))).toEqual(codes('x'));
    // All but the two that slow workers still compile, long before the timeout.
    const refused: unknown[] = [];
    for (const attempt of attempts) void attempt.then((error) => refused.push(error));
    await expect.poll(() => refused.length).toBe(7);
    for (const error of refused) {
      expect(error).toMatchObject({
        code: 'grammar_too_complex',
        message: expect.stringContaining('6 s while other slow grammars'),
      });
    }
    expect(workers.length).toBeLessThan(15);
    expect(allowed(await json.next(codes(']}')))).toEqual(ends);
  });
});

describe('a worker that dies', () => {
  it('is replaced, and answers continue', async () => {
    const { grammars, workers } = open();
    const grammar = await grammars.compile({ kind: 'json' });
    const constraint = grammar.start();
    await write(constraint, '{"a": [1, "x');
    workers[0]?.terminate();
    expect(allowed(await constraint.next(codes('y"')))).toEqual(
      [...codes(',]'), 10, 13, 32].sort((a, b) => a - b),
    );
    expect(allowed(await constraint.next(codes(']}')))).toEqual(ends);
    expect(workers).toHaveLength(2);
    constraint.close();
  });

  it('repeatedly is reported, not retried endlessly', async () => {
    const { grammars } = open({ startWorker: () => startGrammarThread(`${entry}.missing`) });
    await expect(grammars.compile({ kind: 'json' })).rejects.toThrow(/the grammar worker failed repeatedly/);
  });
});

describe('closing', () => {
  it('rejects waiting and new requests', async () => {
    const { grammars } = open();
    const waiting = grammars.compile({ kind: 'json' });
    waiting.catch(() => {});
    await grammars.close();
    await expect(waiting).rejects.toThrow(/closed/);
    await expect(grammars.compile({ kind: 'json' })).rejects.toThrow(/closed/);
  });
});
