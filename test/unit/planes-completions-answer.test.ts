import { describe, expect, test } from 'vitest';
import { greedySampling } from '../../src/engine/types.ts';
import type { ChoiceEvent } from '../../src/planes/turn/choices.ts';
import { collectEvents } from '../../src/wires/core/backend.ts';
import { type TextAnswerOptions, streamTextAnswers } from '../../src/planes/turn/text-answers.ts';
import { completionsWire } from '../../src/wires/completions/client.ts';
import type { Completion, CompletionChunk } from '../../src/wires/completions/server-schema.ts';
import { dataOf, residentAbout } from '../support/resident-about.ts';
import { ByteTokenizer } from '../support/scripted-engine.ts';

const tokenizer = new ByteTokenizer();
const request = { prompt: [120], maxTokens: 50, sampling: greedySampling, stop: [] };
const form: TextAnswerOptions = {
  jobs: [{ request, echo: '' }],
  generatedPerPrompt: 1,
  returnedPerPrompt: 1,
  tokenizer,
  logprobs: true,
};
async function* played(events: readonly ChoiceEvent[]): AsyncGenerator<ChoiceEvent, void, undefined> {
  yield* events;
}
const text = (written: string, ids: readonly number[]): ChoiceEvent => ({
  choice: 0,
  type: 'text',
  text: written,
  ids,
  logprobs: ids.map((id) => ({ id, logprob: -id, top: [] })),
});
const end = (stopText?: string): ChoiceEvent => ({
  choice: 0,
  type: 'end',
  finishReason: 'stop',
  ...(stopText === undefined ? {} : { stopText }),
  usage: { prompt_tokens: 1, completion_tokens: 9, cached_tokens: 0 },
  timings: { queued_ms: 0, prefill_ms: 0, decode_ms: 0 },
});
const bytes = (written: string) => tokenizer.encode(written);

/** The body of one answer; the stream adds up to the same. */
async function collectChoice(events: readonly ChoiceEvent[]) {
  const answer = await collectEvents(streamTextAnswers(played(events), form));
  const about = residentAbout({ logprobs: 0 });
  const [choice] = (completionsWire.body(answer, about) as Completion).choices;
  const writer = completionsWire.writer(about);
  const written = dataOf<CompletionChunk>(answer.map((event) => writer.write(event)).join(''));
  const chunks = written.flatMap(({ choices }) => choices);
  expect(chunks.map((chunk) => chunk.text).join('')).toBe(choice?.text);
  for (const member of ['tokens', 'token_logprobs', 'text_offset'] as const) {
    expect(chunks.flatMap<unknown>(({ logprobs }) => logprobs?.[member] ?? [])).toEqual(
      choice?.logprobs?.[member],
    );
  }
  return choice;
}

describe('the tokens of a text', () => {
  test('are those of the text: tokens of a stop text are dropped, and tokens of held-back text are withheld', async () => {
    const events = [text('ab', bytes('ab')), text('. c', bytes('. c')), text('d', bytes('d. d')), end('. d')];
    const choice = await collectChoice(events);
    expect(choice?.text).toBe('ab. cd');
    expect(choice?.logprobs?.tokens.join('')).toBe('ab. cd');
    const late = await collectChoice([text('a', bytes('a.')), text('.b', bytes('b')), end()]);
    expect(late?.logprobs?.tokens.join('')).toBe('a.b');
  });

  test('end with the end token where the model ended the answer', async () => {
    const choice = await collectChoice([text('a', bytes('a')), text('', [257]), end()]);
    expect(choice?.logprobs).toMatchObject({ tokens: ['a', '<|im_end|>'], text_offset: [0, 1] });
  });

  test('begin at a character of the text, however many bytes and UTF-16 units those before it have', async () => {
    const ids = bytes('é🦊x');
    const choice = await collectChoice([text('é', ids.slice(0, 2)), text('🦊x', ids.slice(2)), end()]);
    expect(choice?.text).toBe('é🦊x');
    expect(choice?.logprobs?.text_offset.at(-1)).toBe(2);
  });
});
