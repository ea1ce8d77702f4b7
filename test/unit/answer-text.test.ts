import { describe, expect, it } from 'vitest';
import { Sequence } from '../../src/engine/scheduling/sequence.ts';
import type { GenerateRequest } from '../../src/engine/types.ts';
import { ByteTokenizer } from '../support/scripted-engine.ts';
import { request } from '../support/scheduler-world.ts';

const [start, imEnd, endOfText] = [256, 257, 258];

/** The events of an output made of these tokens. */
async function eventsOf(answer: readonly number[], changes: Partial<GenerateRequest> = {}) {
  const one = request({ maxTokens: answer.length, ...changes });
  const sequence = new Sequence(one, new ByteTokenizer(), 0);
  for (const id of answer) sequence.acceptToken(id, 0);
  const events = [];
  for await (const event of sequence.events()) events.push(event);
  const texts = events.flatMap((event) => (event.type === 'text' ? [event.text] : []));
  const ids = events.flatMap((event) => (event.type === 'text' ? [...event.ids] : []));
  return { texts, text: texts.join(''), ids, end: events.at(-1) };
}

const bytes = (text: string): number[] => [...new TextEncoder().encode(text)];

describe('control tokens', () => {
  const answer = [...bytes('a'), start, ...bytes('b'), endOfText, ...bytes('c')];

  it('produce no text by default', async () => {
    expect(await eventsOf(answer, { ignoreEnd: true })).toMatchObject({ text: 'abc', ids: answer });
  });

  it('have text where they are visible; others have none', async () => {
    const visible = new Set([start]);
    const got = await eventsOf(answer, { ignoreEnd: true, visible });
    expect(got).toMatchObject({ text: 'a<|im_start|>bc', ids: answer });
    expect(got.texts).toEqual(['a', '<|im_start|>', 'b', 'c']);
  });

  it('a visible one that ends the answer contributes its text', async () => {
    const got = await eventsOf([...bytes('a'), imEnd], { visible: new Set([imEnd]), maxTokens: 9 });
    expect(got).toMatchObject({ text: 'a<|im_end|>', ids: [97, imEnd] });
    expect(got.end).toMatchObject({ finishReason: 'stop' });
    expect(got.end).not.toHaveProperty('stopText');
  });

  it('a visible one ends an incomplete character', async () => {
    const cut = [...bytes('é').slice(0, 1), start, ...bytes('é')];
    const got = await eventsOf(cut, { visible: new Set([start]) });
    expect(got.texts).toEqual(['\u{fffd}<|im_start|>', 'é']);
  });

  it('text tokens listed as visible are written once', async () => {
    expect((await eventsOf(bytes('aé'), { visible: new Set(bytes('aé')) })).text).toBe('aé');
  });
});

describe('the stop text that ended the answer', () => {
  it('is reported, even where several match and where it spans tokens', async () => {
    const got = await eventsOf(bytes('hello world'), { stop: ['world', 'o w', 'low'] });
    expect(got).toMatchObject({ text: 'hell', end: { finishReason: 'stop', stopText: 'o w' } });
  });

  it('may be or contain the text of a visible control token', async () => {
    const answer = [...bytes('a{'), start, ...bytes('b')];
    const visible = new Set([start]);
    const got = await eventsOf(answer, { visible, stop: ['{<|im_start|>'] });
    expect(got).toMatchObject({ text: 'a', end: { finishReason: 'stop', stopText: '{<|im_start|>' } });
    const hidden = await eventsOf(answer, { stop: ['{<|im_start|>'] });
    expect(hidden).toMatchObject({ text: 'a{b', end: { finishReason: 'length' } });
  });

  it('is absent when the model or the limit ended the output', async () => {
    const stop = ['never'];
    for (const answer of [[...bytes('nev'), imEnd], bytes('nev')]) {
      const { text, end } = await eventsOf(answer, { stop, maxTokens: answer.length });
      expect(text).toBe('nev');
      expect(end).not.toHaveProperty('stopText');
    }
  });
});
