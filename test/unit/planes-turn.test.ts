import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { EngineError, greedySampling, type TokenLogprob } from '../../src/engine/types.ts';
import { prepareChat } from '../../src/chat/index.ts';
import { maxTokensPerAnswer } from '../../src/planes/turn/answer-limits.ts';
import { parseAnswers, startChat } from '../../src/planes/turn/chat.ts';
import { collectEvents } from '../../src/wires/core/backend.ts';
import type { AnswerBatches } from '../../src/wires/core/backend.ts';
import { type ChoiceEvent, generateChoices, startChoices } from '../../src/planes/turn/choices.ts';
import { generate } from '../../src/planes/turn/generation.ts';
import { TokenAligner } from '../../src/planes/turn/token-aligner.ts';
import { ByteTokenizer, type Script, ScriptedEngine } from '../support/scripted-engine.ts';
import { ScriptedGrammars } from '../support/scripted-grammars.ts';

const never = new AbortController().signal;
const request = { prompt: [1], maxTokens: 50, sampling: greedySampling, stop: [] };
const grammar = { kind: 'json' } as const;
function answering(script: Script = {}) {
  return { engine: new ScriptedEngine(script), grammars: new ScriptedGrammars() };
}
async function all<Value>(events: AsyncIterable<Value>): Promise<Value[]> {
  const seen: Value[] = [];
  for await (const event of events) seen.push(event);
  return seen;
}

/** The events of one answer, merged. */
async function wholeOf(batches: AnswerBatches) {
  const events = await collectEvents(batches);
  const textOf = (wanted: 'text' | 'reasoning') =>
    events.map((event) => (event.type === wanted && 'text' in event ? event.text : '')).join('');
  const finish = events.find((event) => event.type === 'finish');
  return {
    content: textOf('text'),
    reasoning: textOf('reasoning'),
    logprobs: events.flatMap((event) => (event.type === 'text' ? (event.logprobs ?? []) : [])),
    calls: events.filter(({ type }) => type === 'tool_call').length,
    finishReason: finish?.reason,
    reasoningTokens: events.find((event) => event.type === 'usage')?.usage.reasoning ?? 0,
  };
}

describe('answers side by side', () => {
  test('all run, none starves, each has its own seed, and the order within each is kept', async () => {
    const on = answering({ answer: () => Array.from({ length: 20 }, (_, index) => `${index} `), delayMs: 1 });
    const events = await all(generateChoices(on, { ...request, n: 4 }, never));
    for (const choice of [0, 1, 2, 3]) {
      const own = events.filter((event) => event.choice === choice);
      expect(own.map((event) => (event.type === 'text' ? event.text.trim() : event.type))).toEqual(
        [...Array(20).keys(), 'end'].map(String),
      );
    }
    const firstEnd = events.findIndex(({ type }) => type === 'end');
    for (const choice of [0, 1, 2, 3]) {
      expect(events.slice(0, firstEnd).filter((event) => event.choice === choice).length).toBeGreaterThan(15);
    }
    expect(on.engine.requests.map(({ sampling }) => sampling.seed)).toEqual([0, 1, 2, 3]);
  });

  test('choices are numbered across requests; no more run at a time than the engine has slots', async () => {
    const on = answering({ capacity: 3, delayMs: 1 });
    let maxRunning = 0;
    const events = await startChoices(
      on,
      Array.from({ length: 5 }, () => ({ ...request, n: 2 })),
      never,
    );
    const ended: number[] = [];
    for await (const event of events) {
      maxRunning = Math.max(maxRunning, on.engine.running);
      if (event.type === 'end') ended.push(event.choice);
    }
    expect(ended.sort((a, b) => a - b)).toEqual([...Array(10).keys()]);
    expect(maxRunning).toBe(3);
  });

  test('a queue filled by others delays later answers; the call is refused only where no answer was accepted', async () => {
    const on = answering({ capacity: 2, delayMs: 1 });
    on.engine.stats = () => ({ ...ScriptedEngine.prototype.stats.call(on.engine), slots: 8 });
    const events = await all(generateChoices(on, { ...request, n: 5, grammar }, never));
    expect(events.filter(({ type }) => type === 'end').length).toBe(5);
    expect(on.grammars.closed).toBe(on.grammars.started);

    on.engine.running = 2;
    const refused = all(generateChoices(on, { ...request, n: 5, grammar }, never));
    await expect(refused).rejects.toMatchObject({ code: 'queue_full', status: 429 });
    expect(on.grammars.closed).toBe(on.grammars.started);
  });

  test('a failure ends the others, and leaving the loop ends all and closes their constraints', async () => {
    const on = answering({ answer: () => Array(1000).fill('x'), delayMs: 1 });
    for await (const event of generateChoices(on, { ...request, n: 3, maxTokens: 900, grammar }, never)) {
      if (event.choice === 2) break;
    }
    await expect.poll(() => on.engine.running).toBe(0);
    expect([on.grammars.started, on.grammars.closed]).toEqual([3, 3]);

    const broken = answering({ fail: { after: 2, error: new EngineError('reader_stalled', 'stalled') } });
    await expect(all(generateChoices(broken, { ...request, n: 3, grammar }, never))).rejects.toMatchObject({
      code: 'reader_stalled',
    });
    await expect.poll(() => broken.engine.running).toBe(0);
    expect(broken.grammars.closed).toBe(broken.grammars.started);
  });

  test('a constraint is closed even where nothing is generated, and a grammar is compiled once', async () => {
    const on = answering({ contextLength: 10 });
    await all(generateChoices(on, { ...request, maxTokens: 0, n: 2, grammar }, never));
    expect([on.grammars.started, on.grammars.closed, on.engine.requests.length]).toEqual([2, 2, 0]);
    await expect(all(generateChoices(on, { ...request, grammar }, never))).rejects.toMatchObject({
      code: 'context_length_exceeded',
    });
    expect([on.grammars.started, on.grammars.closed]).toEqual([3, 3]);
    await all(
      await startChoices(
        on,
        Array.from({ length: 4 }, () => ({ ...request, maxTokens: 2, grammar })),
        never,
      ),
    );
    expect(on.grammars.compiled.length).toBe(3);
  });

  test('a host without grammars refuses them; max_tokens 0 with prompt log probabilities runs', async () => {
    const on = answering();
    await expect(
      startChoices({ engine: on.engine, grammars: undefined }, [{ ...request, grammar }], never),
    ).rejects.toMatchObject({ status: 501, code: 'not_supported' });
    const turnRequest = { ...request, prompt: [97, 98], maxTokens: 0, logprobs: 0, promptLogprobs: true };
    const [first] = await all(generate(on.engine, turnRequest, never));
    expect(first).toMatchObject({ type: 'text', text: '', prompt: [null, { id: 98 }] });
  });
});

describe('the tokens of a piece of text', () => {
  const tokenizer = new ByteTokenizer();
  const tokenLogprob = (id: number): TokenLogprob => ({ id, logprob: -id, top: [] });
  const alignerOf = (text: string, visible = new Set<number>()) => {
    const aligner = new TokenAligner(tokenizer, visible);
    const ids = tokenizer.encode(text, { parseSpecial: true });
    for (const id of ids) aligner.push(id, tokenLogprob(id));
    return aligner;
  };
  const textOf = (logprobs: readonly TokenLogprob[]) => tokenizer.decode(logprobs.map(({ id }) => id));

  test('are aligned with it: markup before it belongs to no piece, later tokens wait', () => {
    const aligner = alignerOf('<think>ab</think>\n\ncd<tool');
    for (const text of ['ab', 'c', 'd']) {
      const { tokens, logprobs } = aligner.align(text);
      expect([tokens, textOf(logprobs)]).toEqual([text.length, text]);
    }
    expect(textOf(aligner.align('<tool').logprobs)).toBe('<tool');
  });

  test('characters of several tokens have all of them; hidden control tokens have no text', () => {
    const aligner = alignerOf('aé🦊<|im_end|>b');
    expect(aligner.align('a').tokens).toBe(1);
    expect(aligner.align('é🦊').logprobs.map(({ id }) => id)).toEqual([...new TextEncoder().encode('é🦊')]);
    expect(aligner.align('b').tokens).toBe(1);
    const seen = alignerOf('x<|im_end|>', new Set([257]));
    expect(seen.align('x<|im_end|>').tokens).toBe(2);
  });

  test('a token that two pieces share belongs to the first', () => {
    const words = ['ab<', 'tool', '>c'];
    const worded = new ByteTokenizer();
    worded.stream = () => ({ push: (id: number) => words[id] ?? '', flush: () => '' });
    const aligner = new TokenAligner(worded, new Set());
    for (const id of [0, 1, 2]) aligner.push(id, tokenLogprob(id));
    expect(['ab', '<tool', '>', 'c'].map((text) => aligner.align(text).logprobs.map(({ id }) => id))).toEqual(
      [[0], [1], [2], []],
    );
  });

  test('are all remaining ones where the parser changed the text', () => {
    expect(alignerOf('abc').align('xyz').tokens).toBe(3);
    const passed = alignerOf('abcab');
    passed.skip('xyz');
    passed.skip('abc');
    expect(textOf(passed.align('b').logprobs)).toBe('b');
    expect(passed.align('c').tokens).toBe(0);
  });

  test('are its own, whatever the markup before it contains', () => {
    const piece = fc.record({
      markup: fc.stringMatching(/^(<[a-c/]{0,3}>)?$/),
      text: fc.stringMatching(/^[a-cé🦊]{1,4}$/u),
    });
    fc.assert(
      fc.property(fc.array(piece), (parts) => {
        const aligner = new TokenAligner(tokenizer, new Set());
        let at = 0;
        const push = (text: string) =>
          tokenizer.encode(text).map((id) => {
            aligner.push(id, { id, logprob: at, top: [] });
            return at++;
          });
        for (const { markup, text } of parts) {
          push(markup);
          const own = push(text);
          expect(aligner.align(text).logprobs.map(({ logprob }) => logprob)).toEqual(own);
        }
      }),
    );
  });
});

test('however an answer is split into tokens, its pieces add up to the text and have its tokens', async () => {
  const piece = fc.oneof(
    fc.constantFrom(
      '<think>',
      '</think>',
      '\n',
      ' ',
      '<tool_call>',
      '</tool_call>',
      '{"name": "f", "arguments": {}}',
    ),
    fc.stringMatching(/^[a-z<é🦊]{1,5}$/u),
  );
  const chat = { source: '<think> </think> <tool_call>', render: () => '<|im_start|>assistant\n' };
  await fc.assert(
    fc.asyncProperty(
      fc.array(piece, { maxLength: 12 }),
      fc.integer({ min: 1, max: 6 }),
      async (pieces, size) => {
        const text = Array.from(pieces.join(''));
        const cut = Array.from({ length: Math.ceil(text.length / size) }, (_, index) =>
          text.slice(index * size, (index + 1) * size).join(''),
        );
        const on = answering({ chatTemplate: chat, answer: () => cut });
        const input = { messages: [{ role: 'user' as const, content: 'x' }], tools: [{ name: 'f' }] };
        const turnRequest = { input, sampling: greedySampling, stop: [], logprobs: 0, maxTokens: () => 500 };
        const { events } = await startChat(on, turnRequest, never);
        const answer = await wholeOf(events);
        const bytes = answer.logprobs.flatMap((one) => one.bytes ?? []);
        expect(new TextDecoder().decode(new Uint8Array(bytes))).toBe(answer.content);
        expect(answer.reasoningTokens).toBeLessThanOrEqual(new TextEncoder().encode(pieces.join('')).length);
        expect(answer.finishReason).toBe(answer.calls > 0 ? 'tool_calls' : 'stop');
      },
    ),
    { numRuns: 300 },
  );
});

describe('an answer with calls', () => {
  const input = { messages: [{ role: 'user' as const, content: 'x' }], tools: [{ name: 'f' }] };
  const chat = { source: '<think> </think> <tool_call>', render: () => '<|im_start|>assistant\n' };
  const answered = async (answer: readonly string[], more: object = {}) => {
    const on = answering({ chatTemplate: chat, answer: () => answer });
    const { events } = await startChat(
      on,
      { input, sampling: greedySampling, stop: [], maxTokens: () => 500, ...more },
      never,
    );
    return await wholeOf(events);
  };
  const whole = '<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>';

  test('finishes with tool_calls where all are complete; a truncated call must not be run', async () => {
    expect(await answered([whole, whole])).toMatchObject({ finishReason: 'tool_calls' });
    for (const cut of ['{"a": ', '{"a": 1', '{', '{"a": nope}}']) {
      const call = `<tool_call>{"name": "f", "arguments": ${cut}`;
      const answer = await answered([whole, call]);
      expect(answer.calls).toBe(2);
      expect(answer.finishReason).toBe('stop');
    }
  });

  test('has exactly the tokens of its text, even where reasoning markup contains the same text or text is held back', async () => {
    const word = fc.stringMatching(/^[think]{1,5}$/);
    const cuts = fc.array(
      fc.record({ ids: fc.integer({ min: 1, max: 9 }), held: fc.integer({ min: 0, max: 4 }) }),
      {
        minLength: 1,
      },
    );
    const on = answering({ chatTemplate: chat });
    const prepared = await prepareChat(on.engine, input);
    await fc.assert(
      fc.asyncProperty(word, word, cuts, async (thought, answerText, sizes) => {
        const text = `<think>${thought}</think>${answerText}`;
        const events = heldEvents(text, sizes);
        const { tokenizer } = on.engine;
        const answer = await wholeOf(parseAnswers(events, { prepared, tokenizer }));
        const own = Array.from(
          { length: answerText.length },
          (_, index) => text.length - answerText.length + index,
        );
        expect(answer.logprobs.map(({ logprob }) => logprob)).toEqual(own);
        expect([answer.reasoning, answer.reasoningTokens]).toEqual([thought, thought.length]);
      }),
    );
  });
});

/**
 * One token per character, numbered by its log probability; the last characters of an event arrive with the next one.
 */
async function* heldEvents(
  text: string,
  sizes: readonly { readonly ids: number; readonly held: number }[],
): AsyncGenerator<ChoiceEvent, void, undefined> {
  const usage = { prompt_tokens: 1, completion_tokens: text.length, cached_tokens: 0 };
  let sentLength = 0;
  for (let at = 0, event = 0; at < text.length; event++) {
    const { ids: count, held } = sizes[event % sizes.length] as (typeof sizes)[number];
    const ids = Array.from(text.slice(at, at + count), (char) => char.charCodeAt(0));
    const logprobs = ids.map((id, index) => ({ id, logprob: at + index, top: [] }));
    at = Math.min(text.length, at + count);
    const to = Math.max(sentLength, at - held);
    yield { choice: 0, type: 'text', text: text.slice(sentLength, to), ids, logprobs };
    sentLength = to;
  }
  yield { choice: 0, type: 'text', text: text.slice(sentLength), ids: [], logprobs: [] };
  const timings = { queued_ms: 0, prefill_ms: 0, decode_ms: 0 };
  yield { choice: 0, type: 'end', finishReason: 'stop', usage, timings };
}

test('the refusal of a request that asks for too much names the numbers', () => {
  expect(maxTokensPerAnswer({ answers: 1, member: 'n', tokens: 4096 }, 4096)).toBe(32 * 4096);
  expect(maxTokensPerAnswer({ answers: 1024, member: 'n', tokens: undefined }, 4096)).toBe(128);
  expect(() => maxTokensPerAnswer({ answers: 1025, member: 'n', tokens: 1 }, 4096)).toThrow(
    /1025 answers; at most 1024/,
  );
  // A single answer is bounded by the context alone.
  expect(maxTokensPerAnswer({ answers: 1, member: 'n', tokens: 1_000_000 }, 4096)).toBe(32 * 4096);
  expect(() => maxTokensPerAnswer({ answers: 33, member: 'n', tokens: 4096 }, 4096)).toThrow(
    /33 answers of up to 4096 tokens are 135168; .* 131072 \(32 contexts of 4096\)/,
  );
});
